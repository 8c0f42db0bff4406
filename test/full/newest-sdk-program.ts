import { CONFORMANCE_SERVERS } from '../support/mcp/conformance.ts'

/** A server of the program, with the name that titles use. */
export interface ServedForConformance {
  readonly title: string
  readonly sessions: boolean
  readonly url: string
}

/**
 * `node build/test/full/newest-sdk-program.js` serves the servers of the conformance suite, with and without sessions. It
 * prints one line of JSON with their addresses.
 */
const served: ServedForConformance[] = []
for (const sessions of [false, true])
  for (const [name, serve] of CONFORMANCE_SERVERS) {
    const { url } = await serve({ sessions })
    served.push({ title: `${name} ${sessions ? 'with' : 'without'} sessions`, sessions, url })
  }
process.stdout.write(`${JSON.stringify(served)}\n`)
