import { expect } from 'chai'
import { readErrorReference } from '../../cli/explain/error-reference.ts'
import { KitMcpConfigError } from '../../src/base/options/config-error.ts'
import { KIT_TELEMETRY_ERROR_CODES } from '../../src/telemetry/errors.ts'
import { itRejects, runCommand, runProgram } from '../support/cli/run-command.ts'
import { ARGUMENTS, TAKERS } from '../support/option-takers.ts'

const explain = (...argv: string[]) => runCommand(['explain', ...argv])

const CONFIG_ERROR_CODES = [
  'MCP_CONFIG_MISSING_OPTION',
  'MCP_CONFIG_INVALID_OPTION',
  'MCP_CONFIG_UNKNOWN_OPTION',
] as const satisfies readonly KitMcpConfigError['code'][]

describe('mcp-gatekit explain', function () {
  this.timeout(60_000)

  for (const [argument, heading, content] of [
    ['MCP_CONFIG_MISSING_OPTION', 'MCP_CONFIG_MISSING_OPTION', 'verifyToken'],
    ['mcp_config_invalid_option', 'MCP_CONFIG_INVALID_OPTION', 'scopes'],
    ['Telemetry_Unknown_Event', 'TELEMETRY_UNKNOWN_EVENT', 'event'],
    ['oauth-issuer', 'oauth: issuer', 'https://auth.example.com'],
    ['OAuth-Issuer', 'oauth: issuer', 'https://auth.example.com'],
    ['oauth.issuer', 'oauth: issuer', 'https://auth.example.com'],
    ['issuer', 'oauth: issuer', 'https://auth.example.com'],
    ['oauth.verifyToken', 'oauth: verifyToken', 'jwtVerifier'],
    ['docs/reference/errors.md#oauth-issuer', 'oauth: issuer', 'https://auth.example.com'],
    ['oauth.dpop.replayStore', 'oauth: dpop', 'redisReplayStore'],
    ['jwtVerifier.audience', 'jwtVerifier', 'audience'],
    ['jwtverifier', 'jwtVerifier', 'issuer'],
    ['withSampling', 'withSampling', 'infoRate'],
    ['HttpTransportAdapter.create', 'HttpTransportAdapter.create', 'url'],
    ['httptransportadaptercreate', 'HttpTransportAdapter.create', 'url'],
    ['oauth', 'oauth', 'oauth-issuer'],
    ['TELEMETRY_CONFIGURATION_INVALID', 'TELEMETRY_CONFIGURATION_INVALID', 'withSampling'],
    ['KitToolError', 'KitToolError', 'isError'],
    ['403', '403', 'insufficient_scope'],
  ] as const) {
    it(`prints the help titled "${heading}" for ${argument}`, async () => {
      const { exitCode, stdout, stderr } = await explain(argument)
      expect({ exitCode, stderr }).to.deep.equal({ exitCode: 0, stderr: '' })
      expect(stdout.split('\n', 2)).to.deep.equal([heading, ''])
      expect(stdout)
        .to.contain(content)
        .and.match(/[^\n]\n$/)
    })
  }

  for (const [argument, advice] of [
    ['MCP_CONFIG_MISING_OPTION', 'Did you mean MCP_CONFIG_MISSING_OPTION?'],
    ['telemetry_unknown_events', 'Did you mean TELEMETRY_UNKNOWN_EVENT?'],
    ['oauth-isuer', 'Did you mean oauth-issuer?'],
    ['oauth.scope', 'Did you mean oauth-scopes?'],
    ['jwtVerifer', 'Did you mean jwtVerifier?'],
    ['oauth.hunter2-hunter2', 'Run mcp-gatekit explain for a list'],
    ['hunter2-hunter2', 'Run mcp-gatekit explain for a list'],
    ['', 'Run mcp-gatekit explain for a list'],
    ['constructor', 'Run mcp-gatekit explain for a list'],
  ] as const) {
    it(`exits with 2 for the unknown code "${argument}" and prints: ${advice}`, async () => {
      expect(await explain(argument)).to.deep.equal({
        exitCode: 2,
        stdout: '',
        stderr: `mcp-gatekit: unknown code. ${advice}\n`,
      })
    })
  }

  itRejects(
    ['explain'],
    [
      [['a', 'b'], 'expected one code'],
      [['--json'], 'unknown option --json'],
      [['--help=x'], '--help takes no value'],
    ],
  )

  for (const [argv, exitCode] of [
    [[], 0],
    [['jwtVerifier'], 0],
    [['jwtVerifer'], 2],
    [['--json'], 2],
  ] as const) {
    it(`exits with ${exitCode} and prints the same as a program: explain ${argv.join(' ')}`, async () => {
      const outcome = await runProgram(['explain', ...argv])
      expect(outcome.exitCode).to.equal(exitCode)
      expect(outcome).to.deep.equal(await explain(...argv))
    })
  }

  it('lists every error code and every option without an argument', async () => {
    const { exitCode, stdout, stderr } = await explain()
    expect({ exitCode, stderr }).to.deep.equal({ exitCode: 0, stderr: '' })
    const lines = stdout.split('\n')
    for (const code of [
      ...Object.values(KIT_TELEMETRY_ERROR_CODES),
      ...CONFIG_ERROR_CODES,
      'oauth-issuer',
      'jwtVerifier',
    ])
      expect(lines).to.include(`  ${code}`)
    expect(new Set(lines.filter((line) => line.startsWith('  '))).size).to.equal(
      lines.filter((line) => line.startsWith('  ')).length,
    )
  })

  it('finds every anchor that an error of configuration links to', () => {
    const reference = readErrorReference()
    const anchors = [
      ...TAKERS.map(({ heading }) => heading),
      ...Object.keys(ARGUMENTS),
      ...CONFIG_ERROR_CODES.map((code) => new KitMcpConfigError(code, 'x', 'x').docs),
    ]
    for (const anchor of anchors) expect(reference.find(anchor), anchor).not.to.equal(undefined)
  })

  it('prints the text of errors.md, with a bold heading only if colors are enabled', async () => {
    const entry = readErrorReference().find('oauth-issuer')
    const plain = `oauth: issuer\n\n${entry?.body}\n`
    const onTerminal = async (env: object) =>
      (await runCommand(['explain', 'oauth-issuer'], { env, isTTY: true })).stdout
    expect(await onTerminal({ NO_COLOR: '1' })).to.equal(plain)
    expect(await onTerminal({})).to.equal(plain.replace('oauth: issuer', '\x1b[1moauth: issuer\x1b[0m'))
  })
})

describe('the reference page of errors, as explain reads it', () => {
  it('does not take a comment in a code block for a heading', () => {
    const { entries } = readErrorReference('# Page\n\n### A_CODE\n\nText.\n\n```sh\n### comment\n```\n')
    expect(entries).to.deep.equal([
      {
        code: 'A_CODE',
        kind: 'error code',
        heading: 'A_CODE',
        body: 'Text.\n\n```sh\n### comment\n```',
        children: [],
      },
    ])
  })
})
