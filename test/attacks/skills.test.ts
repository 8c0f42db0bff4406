import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, symlinkSync, truncateSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { expect } from 'chai'
import { createMcpAdapter, KitMcpRouter, mcpHandler } from '../../src/index.ts'
import { loadSkills } from '../../src/skills/index.ts'
import { skillStorage } from '../../src/skills/skill-storage.ts'
import { expectConfigRejection } from '../support/config-error.ts'
import { onNode, type Served, web } from '../support/mcp/entry-points.ts'
import { oauth } from '../support/mcp/notes.ts'
import { bearer, legacy, modern, rpc, type WireAnswer } from '../support/mcp/wire.ts'
import { type Folder, folderOf, manifest } from '../support/skills/folder.ts'
import { skipIf } from '../support/skip.ts'

const SECRET = 'the salary of everybody'
const CLOSED = 'only for administrators'

describe('attacks on a folder of skills', () => {
  const folders: Folder[] = []
  const made = (files: Readonly<Record<string, string | Uint8Array>>): string => {
    const folder = folderOf(files)
    folders.push(folder)
    return folder.path
  }
  const skill = { 'skills/a/SKILL.md': manifest('a'), 'outside/secret.txt': SECRET }
  after(() => {
    for (const folder of folders) folder.remove()
  })

  const rejected = async (path: string, message: RegExp, options = {}): Promise<void> => {
    const startedAt = performance.now()
    await expectConfigRejection(loadSkills(path, options), {
      code: 'MCP_CONFIG_INVALID_OPTION',
      option: 'source',
      message,
    })
    expect(performance.now() - startedAt).to.be.below(2_000)
  }

  /** Loads skills next to which `attack` has created something in the folder of the skill. */
  const special = (attack: string, create: (path: string) => void) =>
    it(`folders of skills: ${attack}: the folder is rejected, and the entry is not opened`, async () => {
      const root = made(skill)
      create(join(root, 'skills/a/x'))
      await rejected(join(root, 'skills'), /'a\/x' is a link or a special file/)
    })

  const yaml = (name: string, more: string, message: RegExp) =>
    it(`folders of skills: front matter with ${name}: the folder is rejected within two seconds`, async () =>
      await rejected(made({ 'a/SKILL.md': manifest('a', 'x', more) }), message))

  const harmless = (name: string, more: string) =>
    it(`folders of skills: front matter with ${name}: the skill is loaded within two seconds, and no prototype changes`, async () => {
      const startedAt = performance.now()
      const { skills } = await loadSkills(made({ 'a/SKILL.md': manifest('a', 'x', more) }))
      expect(performance.now() - startedAt).to.be.below(2_000)
      expect(skills.length).to.equal(1)
      expect(({} as { polluted?: unknown }).polluted).to.equal(undefined)
    })

  const LAUGHS = Array.from(
    { length: 9 },
    (_, index) => `l${index + 1}: &l${index + 1} [*l${index}, *l${index}]\n`,
  )

  special('a link to a file outside', (path) => symlinkSync('../../outside/secret.txt', path))

  special('a link to a folder outside', (path) => symlinkSync('/etc', path))

  special('a link to a file inside', (path) => symlinkSync('SKILL.md', path))

  special('a link that leads to itself', (path) => symlinkSync(path, path))

  special('a link that leads nowhere', (path) => symlinkSync('/does/not/exist', path))

  special('a FIFO without a writer', (path) => {
    execFileSync('mkfifo', [path])
  })

  it('folders of skills: a socket: the folder is rejected, and the entry is not opened', async () => {
    const root = made(skill)
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(join(root, 'skills/a/x'), resolve))
    try {
      await rejected(join(root, 'skills'), /'a\/x' is a link or a special file/)
    } finally {
      server.close()
    }
  })

  it('folders of skills: SKILL.md as a link to a secret: the folder is rejected', async () => {
    const root = made({ 'skills/b/SKILL.md': manifest('b'), 'outside/secret.txt': SECRET })
    mkdirSync(join(root, 'skills/a'))
    symlinkSync('../../outside/secret.txt', join(root, 'skills/a/SKILL.md'))
    await rejected(join(root, 'skills'), /'a\/SKILL\.md' is a link/)
  })

  it('folders of skills: a skill folder that is a link: the folder is rejected', async () => {
    const root = made({ ...skill, 'outside/b/SKILL.md': manifest('b') })
    symlinkSync('../outside/b', join(root, 'skills/b'))
    await rejected(join(root, 'skills'), /'b' is a link/)
  })

  for (const replaced of ['a link', 'a link around it', 'a FIFO'] as const)
    it(`folders of skills: a file that is replaced with ${replaced} between listing and reading: reading fails without following a link or waiting`, async () => {
      const root = made({ 'skills/a/SKILL.md': manifest('a'), 'outside/x': SECRET })
      const storage = await skillStorage(join(root, 'skills'))
      const limit = { max: 1_000, problem: 'x', fix: 'x' }
      const path = join(root, 'skills/a/x')
      if (replaced === 'a link') symlinkSync('../../outside/x', path)
      else if (replaced === 'a link around it') symlinkSync('../../outside', path)
      else execFileSync('mkfifo', [path])
      const reading = storage.read(replaced === 'a link around it' ? 'a/x/x' : 'a/x', limit)
      await expectConfigRejection(reading, {
        code: 'MCP_CONFIG_INVALID_OPTION',
        option: 'source',
        message: /is a link or a special file/,
      })
    })

  it('folders of skills: dot files, dot folders, and links with dots, as version control and mounted volumes have them: they are left out', async () => {
    const root = made({ ...skill, 'skills/a/.env': SECRET, 'skills/.git/SKILL.md': manifest('b') })
    symlinkSync('/etc', join(root, 'skills/..data'))
    const { skills } = await loadSkills(join(root, 'skills'))
    expect(skills.length).to.equal(1)
  })

  it('folders of skills: a sparse file of 1 TiB: the folder is rejected without reading the file', async () => {
    const root = made({ 'a/SKILL.md': manifest('a'), 'a/large.bin': '' })
    truncateSync(join(root, 'a/large.bin'), 2 ** 40)
    await rejected(root, /files of more than 4194304 bytes, such as 'a\/large\.bin'/)
  })

  it('folders of skills: a file that grows while it is read, as those of /proc seem to do: reading fails', async function () {
    skipIf(this, existsSync('/proc/self/status') ? undefined : 'only Linux has files that seem to grow')
    const storage = await skillStorage('/proc/self')
    await expectConfigRejection(storage.read('status', { max: 1_000_000, problem: 'x', fix: 'x' }), {
      code: 'MCP_CONFIG_INVALID_OPTION',
      option: 'source',
      message: /has changed: 'status' was written while it was read/,
    })
  })

  it('folders of skills: names that are long, encoded, or not in a URI: they are served under one URI each, or the folder is rejected', async () => {
    const names = ['%2e%2e', 'x..%2f..%2fetc', 'a\\..\\b', 'a\nb', '~', 'é', '\u{1f600}', 'x'.repeat(255)]
    const files = Object.fromEntries(names.map((name) => [`a/${name}`, name]))
    const skills = await loadSkills(made({ 'a/SKILL.md': manifest('a'), ...files }))
    const { handler } = createMcpAdapter({ router: KitMcpRouter.create().skills(skills) })
    const result = async (method: string, params: object) =>
      (await web(handler).send(legacy(rpc(method, params)))).message.result
    const { resources } = await result('resources/directory/read', { uri: 'skill://a' })
    expect(resources.length).to.equal(names.length + 1)
    for (const { uri, name } of resources) {
      const { contents } = await result('resources/read', { uri })
      expect(contents[0].text).to.equal(name === 'SKILL.md' ? manifest('a') : name)
    }
  })

  it('folders of skills: a path of the contents that leaves the folder: the contents are rejected', async () => {
    for (const path of ['../a/SKILL.md', 'a/../../SKILL.md', '..', 'a/..'])
      await expectConfigRejection(loadSkills({ 'a/SKILL.md': manifest('a'), [path]: 'x' }), {
        code: 'MCP_CONFIG_INVALID_OPTION',
        option: 'source',
        message: /must contain only valid skills: '\.': cannot be listed: .*without "\.\."/,
      })
  })

  it('folders of skills: a path of the contents whose URI has more than 8,192 characters: the contents are rejected', async () => {
    const path = `a/${'\u20ac'.repeat(1_000)}`
    await expectConfigRejection(loadSkills({ 'a/SKILL.md': manifest('a'), [path]: 'x' }), {
      code: 'MCP_CONFIG_INVALID_OPTION',
      option: 'source',
      message: /must contain only names that fit in a URI: 'a\/\u20ac+\u2026' does not/,
    })
  })

  it('folders of skills: a path of the contents with a million folders: the contents are rejected within two seconds', async () => {
    const startedAt = performance.now()
    await expectConfigRejection(loadSkills({ [`${'a/'.repeat(1_000_000)}SKILL.md`]: 'x' }), {
      code: 'MCP_CONFIG_INVALID_OPTION',
      option: 'source',
      message: /must not have more than 16 folders/,
    })
    expect(performance.now() - startedAt).to.be.below(2_000)
  })

  yaml(
    'aliases that double nine times',
    `l0: &l0 x\n${LAUGHS.join('')}`,
    /anchors, aliases and tags are not supported/,
  )

  yaml('a tag', 'x: !!js/function "() => 1"\n', /anchors, aliases and tags are not supported/)

  yaml('a merge key', 'x: &x\n  a: 1\ny:\n  <<: *x\n', /anchors, aliases and tags are not supported/)

  yaml('20,000 nested brackets', `x: ${'['.repeat(20_000)}\n`, /nesting deeper than 32 levels/)

  yaml('20,000 nested lists', `x:\n  ${'- '.repeat(20_000)}a\n`, /nesting deeper than 32 levels/)

  yaml(
    '300 nested maps',
    `x:\n${Array.from({ length: 300 }, (_, i) => `${' '.repeat(i + 1)}a:\n`).join('')}`,
    /nesting deeper than 32 levels/,
  )

  yaml('the key __proto__', '__proto__:\n  polluted: true\n', /"__proto__" is not supported/)

  yaml('the key __proto__ in brackets', 'x: {"__proto__": {polluted: true}}\n', /frontmatter/)

  yaml('the key __proto__ in escapes', '"\\u005f_proto__": 1\n', /"__proto__" is not supported/)

  yaml('a number that JSON does not have', 'x: .inf\n', /cannot be represented in JSON/)

  yaml('a line of 200,000 spaces', `x: "${' '.repeat(200_000)}\n`, /must close on the same line/)

  yaml('200,000 dashes', `${'-'.repeat(200_000)}\n`, /expected "key: value"/)

  harmless('100,000 comments', '#\n'.repeat(100_000))

  harmless('a value of 80,000 lines', `x: a\n${' b\n'.repeat(80_000)}`)

  harmless('a block of 200,000 empty lines', `x: |+\n${'\n'.repeat(200_000)}`)

  harmless('20,000 keys', Array.from({ length: 20_000 }, (_, index) => `k${index}: 1\n`).join(''))

  harmless('the keys constructor and prototype', 'constructor:\n  prototype:\n    polluted: true\n')
})

describe('attacks on requests for skills', () => {
  let folder: Folder
  let server: Served

  before(async () => {
    folder = folderOf({
      'secret.txt': SECRET,
      'skills/secret.txt': SECRET,
      'skills/open/SKILL.md': manifest('open'),
      'skills/open/a.md': 'open',
      'skills/open/.env': SECRET,
      'closed/closed/SKILL.md': manifest('closed', CLOSED),
      'closed/closed/docs/plan.md': CLOSED,
    })
    const router = KitMcpRouter.create()
      .skills(await loadSkills(join(folder.path, 'skills')))
      .skills(await loadSkills(join(folder.path, 'closed')), { scopes: ['mcp:admin'] })
    const setup = { router, oauth: oauth({ anonymous: true }), listOnlyPermitted: true }
    server = await onNode(mcpHandler(createMcpAdapter(setup)))
  })
  after(async () => {
    await server.close()
    folder.remove()
  })

  const METHODS = ['skills/get', 'resources/directory/read', 'resources/read', 'resources/subscribe']

  let requests = 0

  /** Sends requests of each method with each token, in turn in both revisions. */
  async function* sent(
    uri: unknown,
    tokens: readonly (string | undefined)[],
  ): AsyncGenerator<[WireAnswer, string]> {
    // The next URI begins with the other revision.
    requests++
    for (const token of tokens)
      for (const method of METHODS) {
        const headers = token === undefined ? {} : bearer(token)
        const named =
          method === 'resources/read' && typeof uri === 'string' && /^[ -~]*$/.test(uri)
            ? { 'mcp-name': uri }
            : {}
        const request =
          requests++ % 2 === 0
            ? modern(method, { uri }, { ...headers, ...named })
            : legacy(rpc(method, { uri }), headers)
        yield [await server.send(request), `${method} ${token}`]
      }
  }

  const outside = (attack: string, ...uris: unknown[]) =>
    it(`requests for skills: ${attack}: nothing outside of the skills is read, with any token`, async () => {
      for (const uri of uris)
        for await (const [{ status, text }, name] of sent(uri, ['admin', undefined])) {
          expect(status, `${name} ${uri}`).to.be.below(500)
          expect(text, `${name} ${uri}`).not.to.contain(SECRET)
        }
    })

  const spelled = (attack: string, ...uris: string[]) =>
    it(`requests for skills: ${attack}: the scopes of the skill are required`, async () => {
      for (const uri of uris)
        for await (const [{ text, message }, name] of sent(uri, ['reader', undefined])) {
          expect(text, `${name} ${uri}`).not.to.contain(CLOSED)
          expect(message?.result, `${name} ${uri}`).to.equal(undefined)
        }
    })

  outside(
    'dot segments in a URI',
    'skill://open/../secret.txt',
    'skill://open/../../secret.txt',
    'skill://open/%2e%2e/secret.txt',
    'skill://open/.%2E/%2e./secret.txt',
    'skill://open/..',
    'skill://open/.env',
    'skill://open/%2Eenv',
    'skill://../secret.txt',
    'skill://./secret.txt',
    'skill:///secret.txt',
    'skill:secret.txt',
  )

  outside(
    'encoded separators in a URI',
    'skill://open/..%2fsecret.txt',
    'skill://open/..%5Csecret.txt',
    'skill://open/..\\secret.txt',
    'skill://open/%252e%252e%252fsecret.txt',
    'skill://open%2f..%2fsecret.txt',
    'skill://open/a.md%00../../secret.txt',
  )

  outside(
    'a NUL or another control character in a URI',
    'skill://open/\0/../secret.txt',
    'skill://open/.env\0.md',
    'skill://open/\n.env',
    'skill://open/\u007f.env',
  )

  outside('a path instead of a URI', '../secret.txt', '/etc/passwd', 'file:///etc/passwd', 'secret.txt', '')

  outside('a URI that is not a string', null, 5, {}, [], ['skill://open/SKILL.md'], {
    href: 'skill://open',
  })

  outside(
    'the name of a member of an object',
    '__proto__',
    'skill://__proto__/SKILL.md',
    'skill://open/constructor',
    'constructor',
  )

  outside(
    'a URI of 100,000 characters',
    `skill://open/${'../'.repeat(33_000)}secret.txt`,
    `skill://open/${'%2e'.repeat(33_000)}`,
  )

  spelled(
    'a skill in another spelling',
    'skill://closed/SKILL.md',
    'SKILL://closed/SKILL.md',
    'skill://closed/./SKILL.md',
    'skill://closed/docs/../SKILL.md',
    'skill://closed//SKILL.md',
    'skill://%63losed/SKILL.md',
    'skill://closed/%53KILL.md',
    'skill://closed/%2553KILL.md',
    'skill://closed%2FSKILL.md',
    'skill://open/../../closed/SKILL.md',
    'skill://closed/SKILL.md#x',
    'skill://closed/SKILL.md?',
    'skill://closed/SKILL.md?x=1',
    'skill://user@closed/SKILL.md',
    'skill://CLOSED/SKILL.md',
    'skill://closed/skill.md',
    ' skill://closed/SKILL.md',
    'skill://closed/SKILL.md\t',
    'skill:/closed/SKILL.md',
  )

  spelled(
    'a folder in another spelling',
    'skill://closed',
    'skill://closed/',
    'skill://closed/.',
    'skill://closed/docs',
    'skill://closed/docs/',
    'skill://closed/docs/.',
    'skill://closed/docs/x/..',
    'skill://closed/%64ocs',
    'skill://closed/docs#x',
    'skill://closed/docs?',
    'skill://closed%2Fdocs',
    'skill://x@closed/docs',
  )

  spelled(
    'a file in another spelling',
    'skill://closed/docs/plan.md',
    'skill://closed/docs/pl%61n.md',
    'skill://closed/docs/%2e/plan.md',
  )

  it('requests for skills: a cursor that names a skill that the token may not read: the page does not contain it', async () => {
    for (const after of ['', 'after:', 'after:skill://closed/SKILL.mc', `after:${'x'.repeat(100_000)}`]) {
      const cursor = Buffer.from(after).toString('base64url')
      const answer = await server.send(modern('skills/list', { cursor }, bearer('reader')))
      expect(answer.status).to.be.below(500)
      expect(answer.text).not.to.contain('skill://closed')
    }
  })

  it('requests for skills: a notification, a batch of 2026-07-28, and a response that name a skill: nothing is sent', async () => {
    const params = { uri: 'skill://closed/SKILL.md' }
    for (const body of [
      { jsonrpc: '2.0', method: 'skills/get', params },
      [rpc('skills/get', params)],
      { jsonrpc: '2.0', id: 1, method: 'skills/get', params, result: {} },
    ]) {
      const answer = await server.send(legacy(body, bearer('reader')))
      expect(answer.text).not.to.contain(CLOSED)
    }
  })
})
