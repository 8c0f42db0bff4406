import { AssertionError } from 'node:assert'
import { counted } from '../options/counted.ts'
import { memberOf } from '../options/describe-value.ts'
import { LeakSearch } from './leak-search.ts'

const MAX_FINDINGS = 10

/**
 * Expects that none of the events (or log lines, or other values) contains a secret: in a string or number at any depth, in
 * a key, in bytes, or in the result of an accessor, `toJSON()`, `toString()`, or a custom `inspect`. A secret is found as
 * it is, JSON-escaped, percent-encoded (both up to eight times over), in base64 or base64url (also within a longer encoded
 * text, such as Basic credentials), in hex, and as a list of bytes. The search takes time linear in the size of the events.
 *
 * It does not find secrets that were hashed, shortened, compressed, or written in another case, nor those in private members of
 * an object. If no event was recorded, it does not find anything: assert that the expected events exist as well.
 * @param events the values to search: envelopes, strings, objects, arrays, maps, sets, headers, form data, errors, or buffers.
 * Also a single value, or a transport that has recorded events, such as the one of `createTelemetryRecorder`.
 * @param secrets one or more secrets. None of them may be empty.
 * @throws {AssertionError} if a secret was found. The message names the places, but not the secrets.
 * @throws {TypeError} if `secrets` is empty or contains a value that is not a non-empty string. Also if a value, at any
 * depth, can only be read asynchronously or once: a promise, `Request`, `Response`, `Blob`, `ReadableStream`, generator, or iterator. Await
 * or read it first.
 * @example
 * ```ts
 * import { createTelemetryRecorder, expectNoLeak } from 'mcp-gatekit/testing'
 *
 * const recorder = createTelemetryRecorder()
 * // … run the code under test with this transport
 * expectNoLeak(recorder.events(), ['hunter2'])
 * ```
 * @see docs/guides/testing.md
 */
export function expectNoLeak(events: unknown, secrets: string | Iterable<string>): void {
  const wanted = typeof secrets === 'string' ? [secrets] : [...secrets]
  if (wanted.length === 0 || wanted.some((secret) => typeof secret !== 'string' || secret === ''))
    throw new TypeError('expectNoLeak() needs at least one secret; each must be a non-empty string')
  const search = new LeakSearch(wanted)
  search.search(recordedIn(events))
  const { findings, opaque } = search
  if (findings.length === 0) {
    if (opaque.length > 0) throw new TypeError(opaque[0])
    return
  }
  const shown = findings
    .slice(0, MAX_FINDINGS)
    .map(({ secret, form, place }) => `  secret ${secret} of ${wanted.length}, ${form}: ${place}`)
  const left = findings.length - shown.length
  throw new AssertionError({
    message: [
      'secrets have leaked:',
      ...shown,
      ...(left > 0 ? [`  and ${counted(left, 'more place')}`] : []),
    ].join('\n'),
    operator: 'expectNoLeak',
    stackStartFn: expectNoLeak,
  })
}

/** Returns the events of a recording transport, or any other value unchanged. */
function recordedIn(events: unknown): unknown {
  if (typeof events !== 'object' || events === null) return events
  const list = ['events', 'getEvents']
    .map((name) => memberOf(events, name))
    .find((one) => typeof one === 'function')
  return list === undefined ? events : (list as () => unknown).call(events)
}
