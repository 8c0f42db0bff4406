import { randomBytes } from 'node:crypto'
import { expect } from 'chai'
import { GrantIndex } from '../../src/authorization/grants/grant-index.ts'
import { memoryStore } from '../../src/authorization/index.ts'
import { Records } from '../../src/authorization/records.ts'

const SECRET = randomBytes(32).toString('base64url')

/** Starts two nodes that share a store. `live` has the grants that have not ended, with their last use. */
function startNodes(): {
  readonly nodes: readonly [GrantIndex, GrantIndex]
  readonly live: Map<string, number>
  readonly records: Records
} {
  const store = memoryStore()
  const live = new Map<string, number>()
  const node = (): GrantIndex =>
    new GrantIndex({
      records: new Records(store, [SECRET]),
      seconds: 60,
      lastUse: async (name) => live.get(name),
      end: async (name) => live.delete(name),
    })
  return { nodes: [node(), node()], live, records: new Records(store, [SECRET]) }
}

function names(count: number): readonly string[] {
  return Array.from({ length: count }, (_, index) => `grant-${index}`)
}

async function ofClient(index: GrantIndex, clientId: string): Promise<readonly string[]> {
  const found: string[] = []
  for await (const some of index.ofClient(clientId)) found.push(...some)
  return found
}

describe('GrantIndex', () => {
  it('two nodes that add 64 grants of a user at the same time lose none of them', async () => {
    const { nodes, live } = startNodes()
    const all = names(64)
    for (const name of all) live.set(name, 1)
    await Promise.all(
      all.slice(0, 48).map((name, at) => (nodes[at % 2] as GrantIndex).addToUser('ada', name)),
    )
    for (const name of all.slice(48)) await nodes[0].addToUser('ada', name)
    expect(await nodes[1].ofUser('ada')).to.have.members(all)
    expect(await nodes[1].ofUser('grace')).to.deep.equal([])
  })

  it('two nodes that add 500 grants of a client at the same time lose none of them', async function () {
    this.timeout(60_000)
    const { nodes, live } = startNodes()
    const all = names(500)
    for (const name of all) live.set(name, 1)
    await Promise.all(all.map((name, at) => (nodes[at % 2] as GrantIndex).addToClient('desk', name)))
    expect(await ofClient(nodes[0], 'desk')).to.have.members(all)
  })

  it('the 65th grant of a user takes the place of the one whose last use was the longest ago, and ends it', async () => {
    const { nodes, live } = startNodes()
    for (const [at, name] of names(65).entries()) {
      live.set(name, at === 7 ? 0 : 100 + at)
      await nodes[0].addToUser('ada', name)
    }
    expect(live.has('grant-7')).to.equal(false)
    expect(live.size).to.equal(64)
    expect(await nodes[0].ofUser('ada')).to.have.members([...live.keys()])
  })

  it('entries of grants that have ended make room, so that a user who connects again and again stores no more', async function () {
    this.timeout(60_000)
    const { nodes, live, records } = startNodes()
    for (const name of names(400)) {
      live.set(name, 1)
      await nodes[0].addToUser('ada', name)
      await nodes[0].addToClient('desk', name)
      live.delete(name)
    }
    expect(await nodes[0].ofUser('ada')).to.have.lengthOf.at.most(64)
    expect(await ofClient(nodes[0], 'desk')).to.have.lengthOf.at.most(64)
    expect(await records.get('ClientGrantLevel', 'desk#1')).to.equal(undefined)
  })
})
