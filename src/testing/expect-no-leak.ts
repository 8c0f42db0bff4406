import { AssertionError } from 'node:assert'
import { LeakSearch } from './leak-search.ts'

const MAX_FINDINGS = 10

/**
 * Expects that none of the events (or log lines, or other values) contains a secret: in a string or number at any depth, in
 * a key, in bytes, or in what an accessor, `toJSON()`, `toString()`, or a custom `inspect` returns. A secret is found as
 * it is, JSON-escaped, percent-encoded (both up to eight times over), in base64 or base64url (also within a longer encoded
 * text, such as Basic credentials), in hex, and as a list of bytes. The search takes time linear in the size of the events.
 *
 * It does not find secrets that were hashed, cut, compressed, or written in another case, nor what an object keeps
 * private. If nothing was recorded, nothing is found: assert that the expected events are there as well.
 * @param events What to search: envelopes, strings, objects, arrays, maps, sets, headers, form data, errors, or buffers. Also
 * a single one, or a transport that has recorded events, such as that of `createTelemetryRecorder`.
 * @param secrets The secrets, none of them empty.
 * @throws {AssertionError} It says where the secrets are, but never what they are.
 * @throws {TypeError} If there is no secret, or one that is not a string or is empty. Also for what can only be read
 * asynchronously, at any depth: a promise, `Request`, `Response`, `Blob`, or `ReadableStream`. Await or read it first.
 *
 * @example
 * expectNoLeak(recorder.events(), ['hunter2', token])
 */
export function expectNoLeak(events: unknown, secrets: string | Iterable<string>): void {
  const wanted = typeof secrets === 'string' ? [secrets] : [...secrets]
  if (wanted.length === 0 || wanted.some((secret) => typeof secret !== 'string' || secret === ''))
    throw new TypeError('expectNoLeak() takes secrets that are strings and not empty, at least one')
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
    message: ['secrets have leaked:', ...shown, ...(left > 0 ? [`  and ${left} more places`] : [])].join(
      '\n',
    ),
    operator: 'expectNoLeak',
    stackStartFn: expectNoLeak,
  })
}

/** Returns the events that a recording transport was given, and any other value as it is. */
function recordedIn(events: unknown): unknown {
  if (typeof events !== 'object' || events === null) return events
  const list = ['events', 'getEvents']
    .map((name) => member(events, name))
    .find((one) => typeof one === 'function')
  return list === undefined ? events : (list as () => unknown).call(events)
}

function member(value: object, name: string): unknown {
  try {
    return (value as Readonly<Record<string, unknown>>)[name]
  } catch {
    return undefined
  }
}
