import { bodyFlood } from '../support/attacks/body-flood.ts'

describe('bodies: a server with a small heap', function () {
  this.timeout(600_000)
  bodyFlood(4 * 1024 * 1024)
})
