import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { freePorts } from './free-port.ts'

/** The program. */
export const NGINX = '/usr/sbin/nginx'

/** Returns the reason why tests with nginx cannot run here, or `undefined` if they can. */
export function nginxMissing(): string | undefined {
  return spawnSync(NGINX, ['-v']).error === undefined ? undefined : `${NGINX} is not installed`
}

/** nginx as a proxy in front of one server. */
export interface NginxProxy {
  readonly origin: string
  stop(): Promise<void>
}

/** Starts nginx on a free port. @param directives the directives of the location, in addition to `proxy_pass` */
export async function startNginxProxy(upstream: string, directives: string): Promise<NginxProxy> {
  const [port] = await freePorts(1)
  const folder = await mkdtemp(join(tmpdir(), 'mcp-gatekit-nginx-'))
  const conf = join(folder, 'nginx.conf')
  // If nginx runs as root, its workers run as another user by default and could not read the folder.
  const user = process.getuid?.() === 0 ? 'user root;' : ''
  await writeFile(
    conf,
    `${user} worker_processes 1; pid ${folder}/nginx.pid; error_log stderr notice; events {}
http {
  access_log off;
  client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy; fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi; scgi_temp_path ${folder}/scgi;
  server {
    listen 127.0.0.1:${port};
    location / { proxy_pass ${upstream}; proxy_set_header Host $http_host; ${directives} }
  }
}`,
  )
  const child = spawn(NGINX, ['-p', folder, '-c', conf, '-g', 'daemon off;'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const ended = once(child, 'close')
  const said: string[] = []
  await new Promise<void>((resolve, reject) => {
    createInterface({ input: child.stderr }).on('line', (line) => {
      said.push(line)
      if (line.includes('start worker process ')) resolve()
    })
    void ended.then(() => reject(new Error(`nginx has ended: ${said.join('\n')}`)))
  })
  return {
    origin: `http://127.0.0.1:${port}`,
    async stop() {
      child.kill('SIGTERM')
      await ended
      await rm(folder, { recursive: true, force: true })
    },
  }
}
