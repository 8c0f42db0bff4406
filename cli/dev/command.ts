import { type CliContext, showsColors } from '../cli-context.ts'
import { DEV_HELP, parseDevArguments } from './arguments.ts'
import type { Connect } from './connect-commands.ts'
import { type Dev, type DevOptions, startDev } from './dev.ts'

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * Runs `mcp-gatekit dev …` until the server exits or the user stops it. Resolves with the exit code: that of the server,
 * or 0 if the user stopped it.
 * @throws {UsageError}
 */
export async function devCommand(
  argv: readonly string[],
  { stdout, stderr, env }: CliContext,
): Promise<number> {
  const command = parseDevArguments(argv)
  if (command.kind === 'help') {
    stdout.write(DEV_HELP)
    return 0
  }
  const warn = (text: string): void => void stderr.write(`mcp-gatekit dev: ${text}\n`)
  const connects = (connect: Connect): void => void stderr.write(connectText(connect))
  const dev = await startDev({ ...command.options, warn, connects })
  try {
    // On stderr, because the output of the server can be piped.
    stderr.write(banner(dev, command.options, showsColors(stderr, env)))
    return await runServer(dev, env)
  } finally {
    await dev.close()
  }
}

async function runServer(dev: Dev, env: CliContext['env']): Promise<number> {
  const server = dev.run(env)
  let stopped = false
  const stop = (signal: NodeJS.Signals): void => {
    // The second signal ends the server at once.
    if (stopped) void server.stop('SIGKILL')
    // Ctrl-C in a terminal already reaches the server. Many servers exit immediately on a second SIGINT.
    else void server.stop(signal === 'SIGINT' && process.stdin.isTTY ? undefined : signal)
    stopped = true
  }
  for (const signal of SIGNALS) process.on(signal, stop)
  try {
    const { code } = await server.ended
    return stopped ? 0 : (code ?? 1)
  } finally {
    for (const signal of SIGNALS) process.off(signal, stop)
  }
}

function connectText({ url, commands }: Connect): string {
  const lines = commands.map(({ client, command }) => `  ${client.padEnd(22)}${command}\n`)
  return `\n  MCP URL               ${url}\n${lines.join('')}\n`
}

function banner(dev: Dev, { name }: DevOptions, colors: boolean): string {
  const bold = (text: string): string => (colors ? `\x1b[1m${text}\x1b[0m` : text)
  const issuer =
    dev.issuer ??
    (dev.lacksOidcProvider
      ? 'not started, because oidc-provider is not installed. Run: npm install --save-dev oidc-provider'
      : 'not started (--no-auth)')
  return `
  ${bold('mcp-gatekit dev')}

  console               ${bold(dev.url)}
  authorization server  ${issuer}
  server                ${name}

`
}
