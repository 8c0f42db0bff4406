import { expect } from 'chai'
import { KitMcpRouter, tableOf } from '../../../src/mcp/router/router.ts'
import { scopedOperations, withoutScopes } from '../../../src/mcp/stdio/local-table.ts'
import { loadSkills } from '../../../src/skills/index.ts'

describe('mcp/stdio: the table of a local client', () => {
  it('operations with scopes are named once each, a skill by its name', async () => {
    const skills = await loadSkills({
      'a/SKILL.md': '---\nname: a\ndescription: x\n---\n',
      'a/docs/b.md': 'x',
    })
    const table = tableOf(
      KitMcpRouter.create()
        .tool('wipe', { description: 'x', scopes: ['mcp:admin'] }, () => 'x')
        .tool('read', { description: 'x' }, () => 'x')
        .skills(skills, { scopes: ['mcp:admin'] }),
    )
    expect(scopedOperations(table)).to.equal("tool 'wipe', resource 'a'")

    const { tools, resources, listedResources, skills: own, directories, scopes } = withoutScopes(table)
    expect(scopes).to.deep.equal([])
    const entries = [tools, resources, listedResources, own, directories].map((map) => [...map.values()])
    expect(entries.map(({ length }) => length)).to.deep.equal([2, 2, 1, 1, 2])
    expect(entries.flat().flatMap((entry) => entry.scopes)).to.deep.equal([])
  })
})
