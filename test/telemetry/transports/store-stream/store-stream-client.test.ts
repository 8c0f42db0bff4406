import { expect } from 'chai'
import { readStreamFailure } from '../../../../src/telemetry/transports/store-stream/store-stream-client.ts'

describe('readStreamFailure()', () => {
  for (const [what, error, failure] of [
    [
      'a socket error by its code',
      Object.assign(new Error('write failed'), { code: 'EPIPE' }),
      { kind: 'lost' },
    ],
    ['an error of a client by its message', new Error('The client is closed'), { kind: 'lost' }],
    [
      'a reply that Redis is full',
      new Error('OOM command not allowed when used memory'),
      { kind: 'busy', code: 'OOM' },
    ],
    [
      'a reply of the wrong type',
      new Error('WRONGTYPE Operation against a key'),
      { kind: 'refused', code: 'WRONGTYPE' },
    ],
    [
      'a reply that transactions are not allowed',
      new Error("NOPERM User adder has no permissions to run the 'multi' command"),
      { kind: 'no-transactions', code: 'NOPERM' },
    ],
    [
      'the first error of a discarded transaction',
      Object.assign(new Error('EXECABORT Transaction discarded'), {
        previousErrors: [new Error('READONLY You cannot write')],
      }),
      { kind: 'busy', code: 'READONLY' },
    ],
    [
      'an error with a code that is not of a socket',
      Object.assign(new Error('boom'), { code: 'X1' }),
      { kind: 'unknown' },
    ],
    ['a value that is not an error', undefined, { kind: 'unknown' }],
  ] as const) {
    it(`readStreamFailure() reads ${what} as ${failure.kind}`, () => {
      expect(readStreamFailure(error)).to.deep.equal(failure)
    })
  }

  for (const code of [
    ...[
      'LOADING',
      'READONLY',
      'OOM',
      'BUSY',
      'MASTERDOWN',
      'CLUSTERDOWN',
      'TRYAGAIN',
      'MISCONF',
      'NOREPLICAS',
    ],
    ...['EXECABORT', 'FAILOVER'],
  ]) {
    it(`the reply ${code} means that Redis does not accept entries at the moment`, () => {
      expect(readStreamFailure(new Error(`${code} some reason`))).to.deep.equal({ kind: 'busy', code })
    })
  }
})
