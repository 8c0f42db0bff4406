import { mkdirSync, promises, symlinkSync } from 'node:fs'
import { relative } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect } from 'chai'
import { createMcpAdapter, KitMcpRouter } from '../../src/index.ts'
import { type LoadedSkills, loadSkills } from '../../src/skills/index.ts'
import { expectConfigError, expectConfigRejection } from '../support/config-error.ts'
import { web } from '../support/mcp/entry-points.ts'
import { legacy, rpc } from '../support/mcp/wire.ts'
import { FILES, folderOf, manifest } from '../support/skills/folder.ts'

const INVALID = 'MCP_CONFIG_INVALID_OPTION'
const URIS = [
  'skill://Team%20A/returns/SKILL.md',
  'skill://refunds/SKILL.md',
  'skill://refunds/partial/SKILL.md',
]

/** Returns the result of a request to a server with these skills. */
async function resultOf(skills: LoadedSkills, method: string, params?: object): Promise<any> {
  const { handler } = createMcpAdapter({ router: KitMcpRouter.create().skills(skills) })
  return (await web(handler).send(legacy(rpc(method, params)))).message.result
}

describe('loadSkills', () => {
  const folder = folderOf(FILES)
  after(() => folder.remove())

  const { path } = folder
  const sources: readonly (readonly [name: string, source: string | URL | typeof FILES])[] = [
    ['an absolute path', path],
    ['a relative path', relative(process.cwd(), path)],
    ['a path with a slash at its end', `${path}/`],
    ['a file URL', pathToFileURL(path)],
    ['the contents of files', FILES],
  ]
  for (const [name, source] of sources) {
    it(`loadSkills with ${name} returns every skill in the order of the URIs`, async () => {
      const { skills } = await loadSkills(source)
      expect(skills.map(({ uri }) => uri)).to.deep.equal(URIS)
      expect(skills[1]).to.deep.equal({
        uri: 'skill://refunds/SKILL.md',
        name: 'refunds',
        description: 'Refunds an order',
      })
    })
  }

  it('loadSkills follows a link to the folder itself, as deployments have it', async () => {
    const links = folderOf({})
    try {
      symlinkSync(path, `${links.path}/current`)
      expect((await loadSkills(`${links.path}/current`)).skills.length).to.equal(3)
    } finally {
      links.remove()
    }
  })

  it('contents of files have the same digests as the folder', async () => {
    const both = await Promise.all([path, FILES].map(async (source) => await loadSkills(source)))
    const [fromFolder, fromContents] = await Promise.all(
      both.map((skills) => resultOf(skills, 'skills/list')),
    )
    expect(fromContents).to.deep.equal(fromFolder)
  })

  it('a change of the source after loadSkills changes nothing', async () => {
    const bytes = new Uint8Array([0xff, 1, 2])
    const contents: Record<string, string | Uint8Array> = {
      'a/SKILL.md': manifest('a'),
      'a/b.png': bytes,
      'a/b.txt': 'before',
    }
    const skills = await loadSkills(contents)
    bytes.fill(0)
    contents['a/b.txt'] = 'after'
    const read = async (uri: string) => (await resultOf(skills, 'resources/read', { uri })).contents[0]
    expect((await read('skill://a/b.txt')).text).to.equal('before')
    expect((await read('skill://a/b.png')).blob).to.equal('/wEC')
  })

  it('a prefix begins the URI of every skill, file, and folder', async () => {
    const skills = await loadSkills(path, { prefix: 'acme/support-1' })
    expect(skills.skills.map(({ uri }) => uri)).to.deep.equal(
      URIS.map((uri) => uri.replace('skill://', 'skill://acme/support-1/')),
    )
    const { resources } = await resultOf(skills, 'resources/directory/read', {
      uri: 'skill://acme/support-1/refunds/references',
    })
    expect(resources.map(({ uri }: { uri: string }) => uri)).to.deep.equal([
      'skill://acme/support-1/refunds/references/a%252Fb.txt',
      'skill://acme/support-1/refunds/references/rules%20&%20limits.md',
    ])
  })

  const size = (files: typeof FILES): number => {
    const inSkills = Object.entries(files).filter(([name]) => !/^README|^drafts|\/\./.test(name))
    return inSkills.reduce((sum, [, content]) => sum + Buffer.byteLength(content), 0)
  }
  // 12 files and 8 folders.
  const limits = {
    maxSkills: 3,
    maxFiles: 20,
    maxBytes: size(FILES),
    maxFileBytes: Buffer.byteLength(FILES['refunds/SKILL.md'] as string),
  }
  it('a folder that reaches every limit exactly is loaded', async () => {
    for (const source of [path, FILES]) expect((await loadSkills(source, limits)).skills.length).to.equal(3)
  })
  for (const [name, reason] of [
    ['maxSkills', /must not contain more than 2 skills\. Remove some of them, or raise maxSkills\./],
    [
      'maxFiles',
      /must not contain more than 19 files and folders\. Remove some of them, or raise maxFiles\./,
    ],
    ['maxBytes', /must not contain more than \d+ bytes in all\. Make the file smaller, or raise maxBytes\./],
    [
      'maxFileBytes',
      /files of more than \d+ bytes, such as 'refunds\/SKILL.md'\. Make .* raise maxFileBytes\./,
    ],
  ] as const) {
    it(`a folder that exceeds ${name} by one is rejected with the option in the error`, async () => {
      for (const source of [path, FILES])
        await expectConfigRejection(loadSkills(source, { ...limits, [name]: limits[name] - 1 }), {
          code: INVALID,
          option: 'source',
          message: reason,
        })
    })
  }

  for (const [maxFiles, read] of [
    [1, 1 + 1],
    [10, 10 + 1],
    [29, 29 + 1],
    [30, 30],
    [100, 30],
  ] as const)
    it(`maxFiles: ${maxFiles} ends the reading of folders after ${read} of 30 entries`, async () => {
      // The folders contain 2, 4, and 24 entries.
      const made = folderOf({
        'a/SKILL.md': manifest('a'),
        'a/x/1': 'x',
        'a/y': 'x',
        'a/z': 'x',
        ...Object.fromEntries(Array.from({ length: 23 }, (_, index) => [`a/x/${index + 2}`, 'x'])),
        README: 'x',
      })
      const { opendir } = promises
      let entries = 0
      promises.opendir = (async (...args: Parameters<typeof opendir>) => {
        const opened = await opendir(...args)
        return (async function* () {
          for await (const entry of opened) {
            entries++
            yield entry
          }
        })()
      }) as unknown as typeof opendir
      try {
        const loading = loadSkills(made.path, { maxFiles })
        if (maxFiles >= 30) expect((await loading).skills).to.have.length(1)
        else
          await expectConfigRejection(loading, {
            code: INVALID,
            option: 'source',
            message: /raise maxFiles/,
          })
      } finally {
        promises.opendir = opendir
        made.remove()
      }
      expect(entries).to.equal(read)
    })

  const long = 'x'.repeat(1025)
  for (const [problem, files, reason] of [
    ['no skill', { 'README.md': 'x' }, /must contain a skill\. Create a folder with a file SKILL\.md/],
    ['a SKILL.md at the root', { 'SKILL.md': manifest('a') }, /'SKILL\.md': a SKILL\.md at the root/],
    [
      'a skill.md in lower case',
      { 'a/skill.md': manifest('a'), 'b/SKILL.md': manifest('b') },
      /'a\/skill\.md': did you mean SKILL\.md/,
    ],
    [
      'a name that is not that of the folder',
      { 'a/SKILL.md': manifest('b') },
      /'a\/SKILL\.md': .*must match/,
    ],
    ['a name in upper case', { 'A/SKILL.md': manifest('A') }, /must be 1-64 lowercase/],
    ['a description that is too long', { 'a/SKILL.md': manifest('a', long) }, /description must be 1-1024/],
    ['no front matter', { 'a/SKILL.md': '# A' }, /must begin with a "---" line/],
    ['a SKILL.md that is not UTF-8', { 'a/SKILL.md': new Uint8Array([0xff]) }, /is not valid UTF-8/],
    [
      'control characters in a key',
      { 'a/SKILL.md': '---\n\u001b[2Jk: 1\n\u001b[2Jk: 1\n---\n' },
      /'a\/SKILL\.md': SKILL\.md frontmatter: line 3: duplicate key "\?\[2Jk"/,
    ],
    [
      'several invalid skills',
      Object.fromEntries(Array.from({ length: 7 }, (_, index) => [`s${index}/SKILL.md`, 'x'])),
      /; and 2 more\. Correct or remove the skill\./,
    ],
  ] as const) {
    it(`a folder with ${problem} is rejected with an error that names the problem`, async () => {
      const made = folderOf(files as typeof FILES)
      try {
        for (const source of [made.path, files as typeof FILES])
          await expectConfigRejection(loadSkills(source), {
            code: INVALID,
            option: 'source',
            message: reason,
          })
      } finally {
        made.remove()
      }
    })
  }

  it('a file named skill.md inside a skill is an ordinary file', async () => {
    const { skills } = await loadSkills({ 'a/SKILL.md': manifest('a'), 'a/references/skill.md': 'x' })
    expect(skills.length).to.equal(1)
  })

  for (const [count, bytes, accepted] of [
    [512, 1, true],
    [513, 1, false],
    [5, 4 * 1024 * 1024 - 200, true],
    [5, 4 * 1024 * 1024, false],
  ] as const) {
    it(`a skill of ${count} files of ${bytes} bytes is ${accepted ? 'loaded' : 'rejected, because clients decline it'}`, async () => {
      const content = new Uint8Array(bytes)
      const files = Array.from({ length: count - 1 }, (_, index) => [`a/${index}`, content])
      const loading = loadSkills({ 'a/SKILL.md': manifest('a'), ...Object.fromEntries(files) })
      if (accepted) expect((await loading).skills.length).to.equal(1)
      else
        await expectConfigRejection(loading, {
          code: INVALID,
          option: 'source',
          message:
            /'a': \d+ files \/ \d+ bytes exceeds the limit of 512 files \/ 16777216 bytes; some hosts may decline it\. Correct/,
        })
    })
  }

  for (const [what, bytes, options, message] of [
    ['256 KiB', 256 * 1024, {}, undefined],
    [
      '256 KiB and a byte',
      256 * 1024 + 1,
      {},
      /files of more than 262144 bytes, such as 'a\/SKILL\.md'\. Make .* move parts of it into other files/,
    ],
    [
      '300 bytes, and files may have 200',
      300,
      { maxFileBytes: 200 },
      /files of more than 200 bytes, such as 'a\/SKILL\.md'\. Make .* raise maxFileBytes/,
    ],
  ] as const)
    it(`a SKILL.md of ${what} is ${message === undefined ? 'loaded' : 'rejected with the fix'}`, async () => {
      const text = manifest('a').padEnd(bytes, 'x')
      const loading = loadSkills({ 'a/SKILL.md': text }, options)
      if (message === undefined) expect((await loading).skills).to.have.length(1)
      else await expectConfigRejection(loading, { code: INVALID, option: 'source', message })
    })

  for (const [depth, isLoaded] of [
    [16, true],
    [17, false],
  ] as const)
    it(`a file in ${depth} folders is ${isLoaded ? 'loaded' : 'rejected'}`, async () => {
      const file = `a/${'b/'.repeat(depth - 1)}c.txt`
      const files = { 'a/SKILL.md': manifest('a'), [file]: 'x' }
      const made = folderOf(files)
      try {
        for (const source of [made.path, files])
          if (isLoaded) expect((await loadSkills(source)).skills).to.have.length(1)
          else
            await expectConfigRejection(loadSkills(source), {
              code: INVALID,
              option: 'source',
              message: /must not have more than 16 folders in each other/,
            })
      } finally {
        made.remove()
      }
    })

  for (const [prefix, isValid] of [
    ['a', true],
    ['a/b-c_d.e/1', true],
    ['a'.repeat(256), true],
    ['a'.repeat(257), false],
    ['', false],
    ['/a', false],
    ['a/', false],
    ['a//b', false],
    ['-a', false],
    ['a.', false],
    ['a b', false],
    [5, false],
  ] as const)
    it(`the prefix ${JSON.stringify(prefix).slice(0, 20)} of length ${String(prefix).length} is ${isValid ? 'accepted' : 'rejected'}`, async () => {
      const loading = loadSkills({ 'a/SKILL.md': manifest('a') }, { prefix: prefix as string })
      if (isValid) expect((await loading).skills[0]?.uri).to.equal(`skill://${prefix}/a/SKILL.md`)
      else
        await expectConfigRejection(loading, {
          code: INVALID,
          option: 'prefix',
          message: /must be segments of letters, digits/,
        })
    })

  it('a file instead of a folder is rejected', async () => {
    await expectConfigRejection(loadSkills(`${path}/README.md`), {
      code: INVALID,
      option: 'source',
      message: /must be a folder, and not a file/,
    })
  })

  it('a content that is neither a string nor bytes is rejected', async () => {
    await expectConfigRejection(loadSkills({ 'a/SKILL.md': 5 as never }), {
      code: INVALID,
      option: 'source',
      message: /must have a string or bytes at 'a\/SKILL\.md'; received a number/,
    })
  })

  it('an empty folder in a skill is listed and has no entries', async () => {
    const made = folderOf({ 'a/SKILL.md': manifest('a') })
    try {
      mkdirSync(`${made.path}/a/empty`)
      const skills = await loadSkills(made.path)
      const { resources } = await resultOf(skills, 'resources/directory/read', { uri: 'skill://a/empty' })
      expect(resources).to.deep.equal([])
    } finally {
      made.remove()
    }
  })
})

describe('KitMcpRouter.skills', () => {
  const handler = () => 'x'
  const skill = async (name: string, prefix?: string) =>
    await loadSkills(
      { [`${name}/SKILL.md`]: manifest(name), [`${name}/docs/a.md`]: 'x' },
      prefix === undefined ? {} : { prefix },
    )

  const conflicts: readonly (readonly [
    name: string,
    build: () => Promise<() => unknown>,
    option: string,
    message: RegExp,
  ])[] = [
    [
      'two skills of one name',
      async () => {
        const [one, other] = [await skill('a'), await skill('a', 'x')]
        return () => KitMcpRouter.create().skills(one).skills(other)
      },
      'skills',
      /contains 'a', the name of another skill or resource\. Rename one of them/,
    ],
    [
      'two skills of one name in one folder',
      async () => {
        const both = await loadSkills({ 'x/a/SKILL.md': manifest('a'), 'y/a/SKILL.md': manifest('a') })
        return () => KitMcpRouter.create().skills(both)
      },
      'skills',
      /contains 'a', the name of/,
    ],
    [
      'a skill with the name of a resource',
      async () => {
        const skills = await skill('a')
        return () => KitMcpRouter.create().resource('a', { uri: 'notes://a' }, handler).skills(skills)
      },
      'skills',
      /contains 'a', the name of/,
    ],
    [
      'a resource with the name of a skill',
      async () => {
        const skills = await skill('a')
        return () => KitMcpRouter.create().skills(skills).resource('a', { uri: 'notes://a' }, handler)
      },
      'resource',
      /'a' is already registered/,
    ],
    ...[
      'skill://a/SKILL.md',
      'skill://a/docs/a.md',
      'SKILL://a/%64ocs/a.md',
      'skill://a',
      'skill://a/docs',
    ].flatMap(
      (uri) =>
        [
          [
            `a skill after a resource with the URI ${uri}`,
            async () => {
              const skills = await skill('a')
              return () => KitMcpRouter.create().resource('b', { uri }, handler).skills(skills)
            },
            'skills',
            /contains 'skill:\/\/a[^']*', the URI of another skill or resource\. Load the folder with another prefix/,
          ],
          [
            `a resource with the URI ${uri} after a skill`,
            async () => {
              const skills = await skill('a')
              return () => KitMcpRouter.create().skills(skills).resource('b', { uri }, handler)
            },
            'resource',
            /'b' has the URI '[^']+', which is already registered/,
          ],
          [
            `a merged resource with the URI ${uri} after a skill`,
            async () => {
              const skills = await skill('a')
              const other = KitMcpRouter.create().resource('b', { uri }, handler)
              return () => KitMcpRouter.create().skills(skills).merge('sub', other)
            },
            'resource',
            /'sub_b' has the URI '[^']+', which is already registered/,
          ],
        ] as const,
    ),
    [
      'a merged skill with the URI of a skill',
      async () => {
        const skills = await skill('a')
        return () => KitMcpRouter.create().skills(skills).merge('sub', KitMcpRouter.create().skills(skills))
      },
      'skills',
      /contains 'skill:\/\/a\/SKILL\.md', the URI of/,
    ],
    [
      'a merged skill whose name becomes too long',
      async () => {
        const skills = await skill('a'.repeat(64))
        return () => KitMcpRouter.create().merge('b'.repeat(70), KitMcpRouter.create().skills(skills))
      },
      'resource',
      /needs a name of 1 to 128 characters/,
    ],
  ]
  for (const [name, build, option, message] of conflicts) {
    it(`${name} is a configuration error`, async () => {
      expectConfigError(await build(), { code: INVALID, option, message })
    })
  }

  it('two skills of one name are served if one is merged with a prefix and another URI', async () => {
    const router = KitMcpRouter.create()
      .skills(await skill('a'))
      .merge('bank', KitMcpRouter.create().skills(await skill('a', 'bank')))
    const served = web(createMcpAdapter({ router }).handler)
    const result = async (method: string) => (await served.send(legacy(rpc(method)))).message.result
    const { skills } = await result('skills/list')
    expect(skills.map((one: any) => [one.uri, one.frontmatter.name])).to.deep.equal([
      ['skill://a/SKILL.md', 'a'],
      ['skill://bank/a/SKILL.md', 'a'],
    ])
    const { resources } = await result('resources/list')
    expect(resources.map((one: any) => [one.uri, one.name])).to.deep.equal([
      ['skill://a/SKILL.md', 'a'],
      ['skill://bank/a/SKILL.md', 'bank_a'],
    ])
  })

  it('a router is not changed by the skills that are added to it', async () => {
    const router = KitMcpRouter.create().tool('x', { description: 'x' }, handler)
    router.skills(await skill('a'))
    const served = web(createMcpAdapter({ router }).handler)
    expect((await served.send(legacy(rpc('skills/list')))).message.error.code).to.equal(-32_601)
  })
})
