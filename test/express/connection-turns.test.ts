import { expect } from 'chai'
import { ConnectionTurns } from '../../src/express/connection-turns.ts'
import { listen } from '../support/listen.ts'

describe('ConnectionTurns.count()', () => {
  for (const [bytes, isCounted] of [
    [0, false],
    [4_095, false],
    [4_096, true],
    [1_048_576, true],
  ] as const) {
    it(`a response of ${bytes} bytes is ${isCounted ? '' : 'not '}counted until it is sent`, async () => {
      const { origin } = await listen((req, res) => {
        const sent = ConnectionTurns.count(req, res, bytes)
        res.end(typeof sent)
        sent?.()
      })
      expect(await (await fetch(origin)).text()).to.equal(isCounted ? 'function' : 'undefined')
    })
  }
})
