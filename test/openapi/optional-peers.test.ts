import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { expect } from 'chai'
import type { toolsFromOpenApi } from '../../src/openapi/index.ts'
import { OK } from '../support/openapi/documents.ts'

const root = fileURLToPath(new URL('../../../', import.meta.url))
const sources = fileURLToPath(new URL('../../src/', import.meta.url))
const app = (): void => {}
const document = {
  openapi: '3.1.0',
  info: { title: 'Orders', version: '1.0.0' },
  paths: { '/orders': { get: { operationId: 'listOrders', responses: OK } } },
}
const yaml = JSON.stringify(document).replace('{', '# YAML\n{')

describe('the optional peers of toolsFromOpenApi', () => {
  const folders: string[] = []
  after(async () => {
    for (const folder of folders) await rm(folder, { recursive: true })
  })

  /** Imports a copy of the compiled sources that finds every installed package but `missing`. */
  async function importWithout(missing: readonly string[]): Promise<typeof toolsFromOpenApi> {
    const folder = await mkdtemp(join(tmpdir(), 'openapi-'))
    folders.push(folder)
    await cp(sources, join(folder, 'src'), { recursive: true })
    await writeFile(join(folder, 'package.json'), '{"type":"module"}')
    const modules = join(folder, 'node_modules')
    await mkdir(join(modules, '@seriousme'), { recursive: true })
    const installed = [
      ...(await readdir(join(root, 'node_modules'))).filter((name) => name !== '@seriousme'),
      '@seriousme/openapi-schema-validator',
    ]
    for (const name of installed)
      if (!missing.includes(name)) await symlink(join(root, 'node_modules', name), join(modules, name))
    const copy = await import(pathToFileURL(join(folder, 'src/openapi/index.js')).href)
    return copy.toolsFromOpenApi
  }

  /** Returns the name, the option, and the message of the error of a call. */
  async function errorOf(call: Promise<unknown>): Promise<string> {
    const { name, option, message } = await call.then(
      () => ({ name: 'no error', option: '', message: '' }),
      (reason) => reason,
    )
    return `${name} ${option}: ${message}`
  }

  const command = 'npm install @seriousme/openapi-schema-validator@2 light-my-request@6.6 yaml@2'
  const calls = [
    { missing: '@seriousme/openapi-schema-validator', option: 'document', given: document, target: { app } },
    { missing: 'light-my-request', option: 'app', given: document, target: { app } },
    { missing: 'yaml', option: 'document', given: yaml, target: { baseUrl: 'https://api.example.com' } },
  ] as const
  for (const { missing, option, given, target } of calls) {
    it(`a call that needs ${missing} is rejected without it, with one command that installs all three`, async () => {
      const copy = await importWithout([missing])
      expect(await errorOf(copy(given, target)))
        .to.match(new RegExp(`^KitMcpConfigError ${option}: ${option} needs packages that are not installed`))
        .and.to.contain(`Run ${command}. If the application is bundled, mark these packages as external`)
    })
  }

  it('a call for another server with an object as its document needs the validator only', async () => {
    const copy = await importWithout(['light-my-request', 'yaml'])
    await copy(document, { baseUrl: 'https://api.example.com' })
  })

  it('a peer that fails to load rejects the call with the reason, and names bundles', async () => {
    const copy = await importWithout(['yaml'])
    const broken = join(folders.at(-1) as string, 'node_modules', 'yaml')
    await mkdir(broken)
    await writeFile(join(broken, 'package.json'), '{"main":"index.js"}')
    await writeFile(join(broken, 'index.js'), "throw new RangeError('broken')")
    expect(await errorOf(copy(yaml, { baseUrl: 'https://api.example.com' }))).to.contain(
      'KitMcpConfigError document: document needs packages that could not be loaded (broken). Run npm install',
    )
  })

  it('the versions in the command are those of the peer dependencies', async () => {
    const { peerDependencies, peerDependenciesMeta, dependencies } = JSON.parse(
      await readFile(join(root, 'package.json'), 'utf8'),
    )
    for (const [, name = '', version = ''] of command.matchAll(/(\S+)@([\d.]+)/g)) {
      expect(peerDependencies[name]).to.match(new RegExp(`^[~^]${version}\\.`))
      expect(peerDependenciesMeta[name]).to.deep.equal({ optional: true })
      expect(dependencies).to.not.have.property(name)
    }
  })
})
