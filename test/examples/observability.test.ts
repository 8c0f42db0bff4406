import { execFile, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { parser } from '@prometheus-io/lezer-promql'
import { expect } from 'chai'
import { parse } from 'yaml'
import { type RunningExample, startExample } from '../support/examples/run.ts'
import { bearer, beginSession, call, LEGACY, legacy, modern, send } from '../support/mcp/wire.ts'
import { skipIf } from '../support/skip.ts'

const run = promisify(execFile)
const folder = fileURLToPath(new URL('../../../examples/observability/', import.meta.url))
const textOf = (name: string): string => readFileSync(join(folder, name), 'utf8')

/** A metric in a query, with the labels that the query uses. */
interface Selector {
  readonly metric: string
  readonly matchers: readonly { readonly label: string; readonly operator: string; readonly value: string }[]
}

/** The metrics and the labels of a query. */
interface Query {
  readonly selectors: readonly Selector[]
  /** The labels of `by (…)`. */
  readonly groupings: readonly string[]
}

/** Parses a query of Prometheus. @throws {Error} if the grammar of Prometheus does not accept it. */
function parseQuery(expr: string): Query {
  const selectors: { metric: string; matchers: Selector['matchers'][number][] }[] = []
  const groupings: string[] = []
  const text = (from: number, to: number) => expr.slice(from, to)
  parser.parse(expr).iterate({
    enter({ type, from, to, node }) {
      if (type.isError) throw new Error(`the query is invalid at ${from}: ${expr}`)
      if (type.name === 'VectorSelector') selectors.push({ metric: '', matchers: [] })
      if (type.name === 'Identifier' && selectors.length > 0)
        (selectors.at(-1) as { metric: string }).metric = text(from, to)
      if (type.name === 'UnquotedLabelMatcher') {
        const [label, operator, value] = ['LabelName', 'MatchOp', 'StringLiteral'].map((name) => {
          const child = node.getChild(name)
          return child === null ? '' : text(child.from, child.to)
        }) as [string, string, string]
        selectors.at(-1)?.matchers.push({ label, operator, value: JSON.parse(value) })
      }
      if (type.name === 'LabelName' && node.parent?.type.name === 'GroupingLabels')
        groupings.push(text(from, to))
    },
  })
  if (selectors.length === 0) throw new Error(`the query has no metric: ${expr}`)
  return { selectors, groupings }
}

/** A time series of a scrape. */
interface Series {
  readonly metric: string
  readonly labels: ReadonlyMap<string, string>
}

/** Parses the text format of Prometheus. */
function parseScrape(scrape: string): Series[] {
  return scrape
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [, metric = '', labels = ''] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+(?: \d+)?$/.exec(line) ?? []
      const pairs = [...labels.matchAll(/([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g)]
      return { metric, labels: new Map(pairs.map(([, name = '', value = '']) => [name, value])) }
    })
}

/** Returns the problems of a query: metrics, labels, and values that the scrape does not have. */
function problemsOf({ selectors, groupings }: Query, scrape: readonly Series[]): string[] {
  const problems: string[] = []
  for (const { metric, matchers } of selectors) {
    const series = scrape.filter((one) => one.metric === metric)
    if (series.length === 0) problems.push(`no metric ${metric}`)
    const labels = new Set(series.flatMap((one) => [...one.labels.keys()]))
    for (const label of [...groupings, ...matchers.map((matcher) => matcher.label)])
      if (series.length > 0 && !labels.has(label)) problems.push(`no label ${label} of ${metric}`)
    for (const { label, operator, value } of matchers) {
      const values = series.flatMap((one) => one.labels.get(label) ?? [])
      const wanted = operator === '=~' ? value.split('|') : operator === '=' ? [value] : []
      // The example has no status of 500 and above.
      for (const one of wanted.filter((value) => value !== '5..'))
        if (!values.includes(one)) problems.push(`no value ${one} of ${label} of ${metric}`)
    }
  }
  return problems
}

interface Rule {
  readonly alert: string
  readonly expr: string
  readonly annotations: Readonly<Record<string, string>>
}
interface Panel {
  readonly id: number
  readonly title: string
  readonly description: string
  readonly datasource: unknown
  readonly fieldConfig: { readonly defaults: { readonly unit: string } }
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  readonly targets: readonly { readonly expr: string; readonly legendFormat: string }[]
}

const rules: Rule[] = parse(textOf('alerts.yaml')).groups.flatMap((group: { rules: Rule[] }) => group.rules)
const dashboard: { panels: Panel[] } = JSON.parse(textOf('dashboard.json'))
/** Grafana replaces the variable with a duration. */
const queryOf = (expr: string): string => expr.replaceAll('$__rate_interval', '5m')

describe('the example observability', function () {
  this.timeout(60_000)

  let example: RunningExample
  let scrape: Series[]
  let scraped: string

  before(async () => {
    example = startExample('observability/server', { PORT: '0', METRICS_PORT: '0' })
    const said = await example.said(/metrics are at .*\n/)
    const [port, metricsPort] = [...said.matchAll(/127\.0\.0\.1:(\d+)/g)].map(([, digits]) =>
      Number(digits),
    ) as [number, number]
    const session = await beginSession({ send: (request) => send(port, request) }, bearer('demo'))
    const headers = { ...bearer('demo'), ...session }
    await send(port, { method: 'DELETE', headers: { ...headers, 'mcp-protocol-version': LEGACY } })
    await send(
      port,
      modern('tools/call', { name: 'find-book', arguments: { title: 'Emma' } }, bearer('demo')),
    )
    await send(port, modern('tools/call', { name: 'find-book', arguments: {} }, bearer('demo')))
    await send(port, modern('tools/call', { name: 'lend-book' }, bearer('demo')))
    for (let time = 0; time < 2; time++)
      await send(port, modern('tools/call', { name: 'export-catalog' }, bearer('demo')))
    await send(port, modern('tools/call', { name: 'none' }, bearer('demo')))
    await send(port, modern('tools/call', { name: 'remove-book' }, bearer('demo')))
    await send(port, legacy(call('find-book')))
    await send(port, legacy(call('find-book'), { authorization: 'Bearer a b' }))
    for (let attempt = 0; attempt < 12; attempt++)
      await send(port, legacy(call('find-book'), bearer('another-token')))
    const response = await fetch(`http://127.0.0.1:${metricsPort}/metrics`)
    scraped = await response.text()
    scrape = parseScrape(scraped)
  })
  after(async () => {
    example?.process.kill('SIGTERM')
    const { exitCode } = await example.ended
    expect(exitCode).to.equal(0)
  })

  it('the example exports the metrics of its README, with their labels', () => {
    const rows = [...textOf('README.md').matchAll(/^\| `(\w+)` \| `[\w.]+`.* \| (.*) \|$/gm)]
    expect(rows).to.have.length(6)
    for (const [, metric = '', labels = ''] of rows) {
      const series = scrape.filter((one) => one.metric.replace(/_(?:bucket|sum|count)$/, '') === metric)
      expect(series, metric).not.to.deep.equal([])
      const exported = new Set(series.flatMap((one) => [...one.labels.keys()]))
      for (const [, label] of labels.matchAll(/`(\w+)`/g))
        if (label !== 'gen_ai_prompt_name') expect([...exported], metric).to.include(label)
    }
  })

  it('neither users nor tokens are in the metrics of the example', () => {
    expect(scraped).not.to.match(/\bada\b|another-token|\bdemo\b/)
  })

  for (const { alert, expr, annotations } of rules) {
    it(`the alert ${alert} uses metrics, labels, and values that the example exports`, () => {
      expect(problemsOf(parseQuery(expr), scrape)).to.deep.equal([])
      const { groupings } = parseQuery(expr)
      for (const [, label] of Object.values(annotations)
        .join(' ')
        .matchAll(/\$labels\.(\w+)/g))
        expect(groupings).to.include(label)
    })
  }

  for (const { title, targets } of dashboard.panels) {
    it(`the panel "${title}" uses metrics, labels, and values that the example exports`, () => {
      expect(targets).not.to.deep.equal([])
      for (const { expr, legendFormat } of targets) {
        const query = parseQuery(queryOf(expr))
        expect(problemsOf(query, scrape)).to.deep.equal([])
        for (const [, label] of legendFormat.matchAll(/\{\{(\w+)\}\}/g))
          expect(query.groupings).to.include(label)
      }
    })
  }

  it('every metric of the example is on the dashboard', () => {
    const used = dashboard.panels.flatMap(({ targets }) =>
      targets.flatMap(({ expr }) => parseQuery(queryOf(expr)).selectors.map(({ metric }) => metric)),
    )
    const families = new Set(used.map((metric) => metric.replace(/_(?:bucket|sum|count)$/, '')))
    const exported = new Set(scrape.map(({ metric }) => metric.replace(/_(?:bucket|sum|count)$/, '')))
    for (const own of ['target_info', 'otel_scope_info']) exported.delete(own)
    expect([...families]).to.have.members([...exported])
  })

  it('the configurations of Prometheus and the Collector refer to one another', () => {
    const prometheus = parse(textOf('prometheus.yaml'))
    const collector = parse(textOf('collector.yaml'))
    const target = ['127.0.0.1:9464']
    expect(prometheus.rule_files).to.deep.equal(['alerts.yaml'])
    expect(prometheus.scrape_configs[0].static_configs[0].targets).to.deep.equal(target)
    const [scrapeConfig] = collector.receivers.prometheus.config.scrape_configs
    expect(scrapeConfig.static_configs[0].targets).to.deep.equal(target)
    expect(textOf('server.ts')).to.include('9464')
    for (const { receivers, exporters } of Object.values<Record<string, string[]>>(
      collector.service.pipelines,
    )) {
      for (const name of receivers ?? []) expect(collector.receivers).to.have.property(name)
      for (const name of exporters ?? []) expect(collector.exporters).to.have.property(name)
    }
  })

  it('promtool accepts the alert rules and the configuration', async function () {
    skipIf(this, promtoolMissing())
    await run('promtool', ['check', 'rules', join(folder, 'alerts.yaml')])
    await run('promtool', ['check', 'config', join(folder, 'prometheus.yaml')])
  })

  it('failed tools cause an alert, and step-ups and mistakes of clients do not', async function () {
    skipIf(this, promtoolMissing())
    const scratch = await mkdtemp(join(tmpdir(), 'alerts-'))
    try {
      const series = (labels: string, perMinute: number) => ({
        series: `mcp_server_operation_duration_count{mcp_method_name="tools/call",gen_ai_tool_name="t"${labels}}`,
        values: `0+${perMinute}x30`,
      })
      const expected = { exp_labels: { severity: 'warning', gen_ai_tool_name: 't' } }
      const tests = (['403', '401', '-32000', '-32602', 'tool_error', '500', '503'] as const).map((type) => ({
        interval: '1m',
        input_series: [series('', 60), series(`,error_type="${type}"`, 60)],
        alert_rule_test: [
          {
            eval_time: '25m',
            alertname: 'McpToolErrors',
            exp_alerts: /^(?:tool_error|5)/.test(type)
              ? [
                  {
                    ...expected,
                    exp_annotations: {
                      summary: 'More than 5 % of the calls of t fail',
                      description:
                        'The events kit.mcp.tool.failed and kit.mcp.request.failed have the errors.',
                    },
                  },
                ]
              : [],
          },
        ],
      }))
      const file = join(scratch, 'test.yaml')
      await writeFile(file, JSON.stringify({ rule_files: [join(folder, 'alerts.yaml')], tests }))
      await run('promtool', ['test', 'rules', file])
    } finally {
      await rm(scratch, { recursive: true })
    }
  })
})

/** Returns the reason why `promtool` cannot check files here, or `undefined` if it can. */
function promtoolMissing(): string | undefined {
  return spawnSync('promtool', ['--version']).error === undefined ? undefined : 'promtool is not installed'
}
