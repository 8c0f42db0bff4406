import { type CliContext, showsColours } from '../output.ts'
import { DEV_HELP, parseDevArguments } from './arguments.ts'
import { type Dev, type DevOptions, startDev } from './dev.ts'

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * `mcp-gatekit dev …`: runs until the server ends or is stopped. Resolves with the exit code: the server's, or 0 when it
 * was stopped. @throws {UsageError}
 */
export async function devCommand(argv: readonly string[], around: CliContext): Promise<number> {
  const command = parseDevArguments(argv)
  if (command.kind === 'help') {
    around.stdout.write(DEV_HELP)
    return 0
  }
  const dev = await startDev(command.options)
  try {
    // Beside the output of the server, which may be piped.
    around.stderr.write(banner(dev, command.options, showsColours(around.stderr, around.env)))
    return await runServer(dev, around.env)
  } finally {
    await dev.close()
  }
}

async function runServer(dev: Dev, env: CliContext['env']): Promise<number> {
  const server = dev.run(env)
  let stopped = false
  const stop = (signal: NodeJS.Signals): void => {
    // A second Ctrl-C is impatience.
    if (stopped) void server.stop('SIGKILL')
    // Ctrl-C in a terminal reaches the server too, and twice is once too often for many.
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

function banner(dev: Dev, { name }: DevOptions, colours: boolean): string {
  const strong = (text: string): string => (colours ? `\x1b[1m${text}\x1b[0m` : text)
  const issuer =
    dev.issuer ?? (dev.lacksOidcProvider ? 'none: npm install --save-dev oidc-provider' : 'none (--no-auth)')
  return `
  ${strong('mcp-gatekit dev')}

  console               ${strong(dev.url)}
  authorization server  ${issuer}
  server                ${name}

`
}
