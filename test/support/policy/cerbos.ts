import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { freePort } from '../free-port.ts'

/** Returns the path of the Cerbos program, or `undefined` if the registry has none for this platform. */
export function cerbosProgram(): string | undefined {
  const { platform, arch } = process
  const name = `cerbos-${platform}-${arch}`
  try {
    return createRequire(import.meta.url).resolve(`@cerbos/${name}/${name}`)
  } catch {
    return undefined
  }
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
