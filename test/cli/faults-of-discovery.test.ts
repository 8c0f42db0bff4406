import { expect } from 'chai'
import { cardProblems } from '../../cli/doctor/checks/server-card.ts'
import {
  examineTarget,
  type Fault,
  findingOf,
  type Incoming,
  type Outgoing,
  problemsOf,
  startTarget,
} from '../support/cli/doctor-target.ts'
import { itReports } from '../support/cli/recorded.ts'
import { CARDS } from '../support/mcp/discovery-schemas.ts'

const CARD_PATH = '/mcp/server-card'
const CATALOG_PATH = '/.well-known/ai-catalog.json'
const CARD_TYPE = 'application/mcp-server-card+json'
const VERSIONS = ['2026-07-28', '2025-11-25', '2025-06-18', '2025-03-26']

type Change = (document: Record<string, any>) => void

/** Serves a card and a catalog, which fit the server except for the changes. */
function serving(changeCard: Change = () => undefined, changeCatalog: Change = () => undefined) {
  return ({ path, method, headers: { host } }: Incoming): Partial<Outgoing> | undefined => {
    if (method !== 'GET') return undefined
    const url = `http://${host}/mcp`
    const card = {
      $schema: 'https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json',
      name: '1.0.0.127/mcp-gatekit',
      version: '0.0.0',
      description: 'A server',
      remotes: [{ type: 'streamable-http', url, supportedProtocolVersions: [...VERSIONS] }],
    }
    const entries = [
      { identifier: 'urn:air:127.0.0.1:mcp:mcp-gatekit', type: CARD_TYPE, url: `${url}/server-card` },
    ]
    const catalog = { specVersion: '1.0', entries }
    changeCard(card)
    changeCatalog(catalog)
    const respond = (document: object, type: string): Partial<Outgoing> => ({
      headers: { 'content-type': type, 'access-control-allow-origin': '*' },
      body: JSON.stringify(document),
    })
    if (path === CARD_PATH) return respond(card, CARD_TYPE)
    return path === CATALOG_PATH ? respond(catalog, 'application/ai-catalog+json') : undefined
  }
}

/** Changes the response to a request for one path. */
const altered =
  (at: string, change: (answer: Partial<Outgoing>) => Partial<Outgoing>): NonNullable<Fault['instead']> =>
  (request) => {
    const answer = serving()(request)
    return answer !== undefined && request.path === at ? change(answer) : answer
  }

const IDS = ['card.valid', 'card.remote', 'card.discover', 'card.catalog', 'card.cors'] as const

const statusesOf = async (fault: Fault) => {
  const report = await examineTarget(await startTarget(fault))
  return IDS.map((id) => findingOf(report, id)?.status)
}

describe('doctor, for the server card and the catalog,', () => {
  for (const [what, isValid, card] of CARDS) {
    it(`${isValid ? 'accepts' : 'rejects'} a card with ${what}`, () => {
      expect(cardProblems(card as Record<string, unknown>).length === 0).to.equal(isValid)
    })
  }

  it('a card that fits the server has no problem', async () => {
    const fault = { instead: serving() }
    expect(await statusesOf(fault)).to.deep.equal(['ok', 'ok', 'ok', 'ok', 'ok'])
    expect(problemsOf(await examineTarget(await startTarget(fault)))).to.deep.equal([])
  })

  it('a card with a template of a URL fits a server whose name has a namespace', async () => {
    const instead = serving((card) => {
      card.remotes[0].url = '{origin}/mcp'
    })
    const alter: NonNullable<Fault['alter']> = (answer) => {
      answer.body = answer.body.replace('"name":"mcp-gatekit"', '"name":"com.example/mcp-gatekit"')
    }
    expect(await statusesOf({ instead, alter })).to.deep.equal(['ok', 'ok', 'ok', 'ok', 'ok'])
  })

  const absent: readonly (readonly [what: string, answer: Partial<Outgoing>])[] = [
    ['404', { status: 404 }],
    ['401', { status: 401 }],
    ['a page', { headers: { 'content-type': 'text/html' }, body: '<!doctype html>' }],
  ]
  for (const [what, answer] of absent) {
    it(`a server that responds to its card with ${what} has none, which is not a problem`, async () => {
      const fault = altered(CARD_PATH, () => answer)
      const without: Fault = {
        instead: (request) => (request.path === CATALOG_PATH ? answer : fault(request)),
      }
      expect(await statusesOf(without)).to.deep.equal(['skip', 'skip', 'skip', 'skip', 'skip'])
    })
  }

  it('a card at another URL is found with the catalog', async () => {
    const move: Change = ({ entries }) => {
      entries[0].url = entries[0].url.replace('/mcp/server-card', '/cards/mcp.json')
    }
    const instead = (request: Incoming) => {
      if (request.path === CARD_PATH) return { status: 404 }
      return serving(
        undefined,
        move,
      )(request.path === '/cards/mcp.json' ? { ...request, path: CARD_PATH } : request)
    }
    expect(await statusesOf({ instead })).to.deep.equal(['ok', 'ok', 'ok', 'ok', 'ok'])
  })

  it('without a catalog, only the check of the catalog is skipped', async () => {
    const instead = altered(CATALOG_PATH, () => ({ status: 404 }))
    expect(await statusesOf({ instead })).to.deep.equal(['ok', 'ok', 'ok', 'skip', 'ok'])
  })

  itReports('server-card', {
    'a card whose name has no namespace': {
      instead: serving((card) => {
        card.name = 'mcp-gatekit'
      }),
    },
    'a card with another media type': {
      instead: altered(CARD_PATH, (answer) => ({
        ...answer,
        headers: { ...answer.headers, 'content-type': 'application/json' },
      })),
    },
    'a card that leads to another host': {
      instead: serving((card) => {
        card.remotes[0].url = 'http://internal:3000/mcp'
      }),
    },
    'a card with the name of another server': {
      instead: serving((card) => {
        card.name = 'com.example/other'
      }),
    },
    'a card with an old version': {
      instead: serving((card) => {
        card.version = '0.0.0-beta'
      }),
    },
    'a card that does not name the newest protocol version': {
      instead: serving((card) => {
        card.remotes[0].supportedProtocolVersions.shift()
      }),
    },
    'a catalog that lists other servers only': {
      instead: serving(undefined, ({ entries }) => {
        entries[0].url = 'https://elsewhere.example/server-card'
      }),
    },
    'a catalog with an identifier twice': {
      instead: serving(undefined, ({ entries }) => entries.push(entries[0])),
    },
    'a catalog without a version of its format': {
      instead: serving(undefined, (catalog) => {
        delete catalog.specVersion
      }),
    },
    'a catalog with another media type': {
      instead: altered(CATALOG_PATH, (answer) => ({
        ...answer,
        headers: { ...answer.headers, 'content-type': 'application/json' },
      })),
    },
    'a card that web pages cannot read': {
      instead: altered(CARD_PATH, (answer) => ({ ...answer, headers: { 'content-type': CARD_TYPE } })),
    },
  })

  it('reports a card that names a protocol version which the server does not serve', async () => {
    const instead = serving()
    const alter: NonNullable<Fault['alter']> = (answer, { message }) => {
      if (message?.params?.protocolVersion === '2025-06-18')
        answer.body = answer.body.replace('"protocolVersion":"2025-06-18"', '"protocolVersion":"2025-11-25"')
    }
    const report = await examineTarget(await startTarget({ instead, alter }))
    expect(findingOf(report, 'card.discover')).to.include({ status: 'fail' })
    expect(findingOf(report, 'card.discover')?.seen).to.match(
      /names 2025-06-18, which the server does not support/,
    )
  })

  it('compares with initialize if the server has no server/discover', async () => {
    const instead = (request: Incoming) => {
      if (request.headers['mcp-protocol-version'] === '2026-07-28')
        return { status: 400, headers: { 'content-type': 'application/json' }, body: '{}' }
      return serving((card) => {
        card.version = '2.0.0'
        card.remotes[0].supportedProtocolVersions.shift()
      })(request)
    }
    const report = await examineTarget(await startTarget({ instead }))
    expect(findingOf(report, 'card.discover')?.seen).to.match(
      /2\.0\.0 in the card, and 0\.0\.0 in initialize/,
    )
  })
})
