import { bodyFlood } from '../../support/attacks/body-flood.ts'

describe('bodies: a server with a small heap', function () {
  this.timeout(120_000)
  // A `Buffer` for each chunk would exceed the heap. The full suite tests the default limit of 4 MiB.
  bodyFlood(256 * 1024)
})
