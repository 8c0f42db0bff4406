import { expect } from 'chai'
import { messageOf, ReasonReader } from '../../../src/telemetry/transports/target-reason.js'

describe('the reason of a target', () => {
  const reader = new ReasonReader('https://example.com/hooks/T0123456789abcdef/x?key=queryvalue', {
    authorization: 'Bearer abc/def+123456',
    short: 'abc',
  })
  const quoted: [string, string][] = [
    ['{"code":3,"message":"entry too far behind"}', ' "entry too far behind"'],
    ['{"error":{"message":"no\\nroom"}}', ' "no room"'],
    ['{"error":"no abc"}', ' "no abc"'],
    ['plain text', ' "plain text"'],
    ['<html>no</html>', ''],
    ['{"other":1}', ''],
    ['', ''],
    ['bad abc/def+123456', ' "bad [removed]"'],
    ['bad abc%2Fdef%2B123456', ' "bad [removed]"'],
    ['no /hooks/T0123456789abcdef?key=queryvalue', ' "no /hooks/[removed]?key=[removed]"'],
    ['Bearer other-token', ' "[removed]"'],
    ['x'.repeat(300), ` "${'x'.repeat(199)}…"`],
  ]
  for (const [body, expected] of quoted) {
    it(`a target that answers ${JSON.stringify(body.slice(0, 50))} is quoted as ${JSON.stringify(expected.slice(0, 50))}`, () =>
      expect(reader.quote(messageOf(body))).to.equal(expected))
  }
})
