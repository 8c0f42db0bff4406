import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { freePort } from '../free-port.ts'

const VERSION = '0.51.0'

/** Downloads Cerbos from the npm registry. Returns the path of its program, or `undefined` if there is none for this platform. */
export async function cerbosProgram(): Promise<string | undefined> {
  const name = `cerbos-${process.platform}-${process.arch}`
  const args = ['--yes', '--package', `@cerbos/${name}@${VERSION}`, '--', 'node', '-p', 'process.env.PATH']
  const printed = await promisify(execFile)('npx', args).catch(() => undefined)
  if (printed === undefined) return undefined
  const [bin = ''] = printed.stdout.split(delimiter)
  return join(dirname(bin), '@cerbos', name, name)
}

/** A Cerbos process on loopback. */
export interface Cerbos {
  readonly url: string
  stop(): Promise<void>
}

/** @param policies the policies in YAML, by file name */
export async function startCerbos(
  program: string,
  policies: Readonly<Record<string, string>>,
): Promise<Cerbos> {
  const folder = await mkdtemp(join(tmpdir(), 'mcp-gatekit-cerbos-'))
  for (const [name, policy] of Object.entries(policies)) await writeFile(join(folder, name), policy)
  const [http, grpc] = [await freePort(), await freePort()]
  const settings = [
    `server.httpListenAddr=127.0.0.1:${http}`,
    `server.grpcListenAddr=127.0.0.1:${grpc}`,
    'storage.driver=disk',
    `storage.disk.directory=${folder}`,
    'telemetry.disabled=true',
  ]
  const child = spawn(program, ['server', ...settings.map((setting) => `--set=${setting}`)], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const exited = once(child, 'exit')
  const stop = async (): Promise<void> => {
    child.kill('SIGKILL')
    await exited
    await rm(folder, { recursive: true })
  }
  child.stderr.resume()
  for await (const line of createInterface({ input: child.stdout })) {
    if (!line.includes('Starting HTTP server')) continue
    child.stdout.resume()
    const url = `http://127.0.0.1:${http}`
    // The line is written before the first connection is accepted.
    for (;;) {
      const response = await fetch(`${url}/.well-known/authzen-configuration`).catch(() => undefined)
      await response?.body?.cancel()
      if (response?.ok) return { url, stop }
      await new Promise(setImmediate)
    }
  }
  await stop()
  throw new Error('Cerbos has ended')
}
