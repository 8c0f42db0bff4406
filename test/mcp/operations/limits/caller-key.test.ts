import { expect } from 'chai'
import { createMcpAdapter, KitMcpRouter, type LimitedBy, mcpAuth, mcpHandler } from '../../../../src/index.ts'
import { ENTRY_POINTS, onNode, type Served } from '../../../support/mcp/entry-points.ts'
import { oauth } from '../../../support/mcp/notes.ts'
import { bearer, call, legacy } from '../../../support/mcp/wire.ts'

const router = KitMcpRouter.create().tool('ping', { description: 'x' }, () => 'pong')
const limitedBy = (by: LimitedBy) => ({ calls: { max: 1, perSeconds: 60, by } })

/** The tokens `reader` and `writer` are of two users, and of one address. */
const TOKENS = ['reader', 'writer', 'reader']
const EXPECTED: Readonly<Record<LimitedBy, readonly boolean[]>> = {
  user: [false, false, true],
  // The verifier does not name a client.
  client: [false, false, true],
  address: [false, true, true],
}

async function refusals(served: Served): Promise<boolean[]> {
  const refused: boolean[] = []
  for (const token of TOKENS) {
    const { message } = await served.send(legacy(call('ping'), bearer(token)))
    refused.push(message.result.isError === true)
  }
  return refused
}

describe('mcp: the callers that limits count', () => {
  for (const by of ['user', 'client', 'address'] as const) {
    for (const entry of ENTRY_POINTS) {
      it(`${entry.name} counts calls by ${by}`, async () => {
        const served = await entry.serve({ router, oauth: oauth(), limits: limitedBy(by) })
        try {
          expect(await refusals(served)).to.deep.equal(EXPECTED[by])
        } finally {
          await served.close()
        }
      })
    }

    it(`an adapter without OAuth behind mcpAuth counts calls by ${by} of the token`, async () => {
      const adapter = createMcpAdapter({ router, limits: limitedBy(by) })
      const served = await onNode(mcpAuth(oauth()), mcpHandler(adapter))
      try {
        expect(await refusals(served)).to.deep.equal(EXPECTED[by])
      } finally {
        await served.close()
      }
    })
  }
})
