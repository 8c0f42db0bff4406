import { expect } from 'chai'
import fc from 'fast-check'
import { auditKey, CanonicalForm, messageOf } from '../../../src/telemetry/audit/audit-line.ts'
import { verifyAudit } from '../../../src/telemetry/index.ts'
import { anyCharacter } from '../../support/any-character.ts'
import { runs } from '../../support/runs.ts'
import { AUDIT_SECRET, auditedLines } from '../../support/telemetry/audit.ts'
import { expectRejection } from '../../support/telemetry/recording.ts'

type Json = Record<string, unknown>
type Line = Json & { attributes: Json }

/** Returns the lines of a run with the events `a.1` to `a.3`, which have the sequence numbers 1 to 3. */
const threeEvents = () =>
  auditedLines((manager) => {
    for (let index = 1; index <= 3; index++)
      manager.emit(`a.${index}`, {
        actor: { type: 'user', id: 'u1' },
        attributes: { index, rate: 0.1, tags: ['x', null, true], text: 'naïve 😀' },
      })
  })

const at = (lines: readonly string[], index: number): string => lines[index] as string
const read = (line: string): Line => JSON.parse(line) as Line
const changed = (line: string, change: (line: Line) => void): string => {
  const copy = read(line)
  change(copy)
  return JSON.stringify(copy)
}
const replaced = (lines: readonly string[], index: number, line: string): string[] =>
  lines.map((one, place) => (place === index ? line : one))

/** Writes JSON with members in reverse order, with spaces, and with escapes for all characters. */
function rewritten(value: unknown): string {
  if (Array.isArray(value)) return `[ ${value.map(rewritten).join(' , ')} ]`
  if (typeof value === 'object' && value !== null) {
    const members = Object.entries(value).reverse()
    return `{ ${members.map(([key, member]) => `${rewritten(key)} : ${rewritten(member)}`).join(' , ')} }`
  }
  if (typeof value === 'number') return Number.isInteger(value) ? `${value}.0` : value.toExponential(20)
  if (typeof value !== 'string') return String(value)
  return `"${Array.from({ length: value.length }, (_, i) => `\\u${value.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')}"`
}

describe('verifyAudit', () => {
  it('the lines of a run are valid, and its opening and closing line do not count as events', async () => {
    const lines = await threeEvents()
    expect(lines).to.have.length(5)
    expect(await verifyAudit(lines, AUDIT_SECRET)).to.deep.equal({ valid: true, events: 3 })
    expect(await verifyAudit(lines, Buffer.from(AUDIT_SECRET))).to.deep.equal({ valid: true, events: 3 })
  })

  it('a run without events is valid', async () => {
    const lines = await auditedLines(() => {})
    expect(await verifyAudit(lines, AUDIT_SECRET)).to.deep.equal({ valid: true, events: 0 })
  })

  for (const [what, change] of [
    [
      'in another order of members, with spaces, escapes, and other notations of numbers',
      (lines) => lines.map((line) => rewritten(read(line))),
    ],
    ['that end in CRLF', (lines) => lines.map((line) => `${line}\r`)],
    ['after a byte order mark', (lines) => [`\ufeff${lines[0]}`, ...lines.slice(1)]],
    ['with empty lines between them', (lines) => lines.flatMap((line) => [line, '', ' \t'])],
    ['as the bytes of a file', (lines) => [Buffer.from(lines.join('\n'))]],
    [
      'as bytes in small pieces, after a byte order mark',
      (lines) =>
        (
          Buffer.from(`\ufeff${lines.join('\r\n')}`)
            .toString('latin1')
            .match(/[\s\S]{1,7}/g) ?? []
        ).map((piece) => Buffer.from(piece, 'latin1')),
    ],
  ] satisfies readonly (readonly [string, (lines: string[]) => (string | Uint8Array)[]])[]) {
    it(`lines ${what} are valid`, async () => {
      expect(await verifyAudit(change(await threeEvents()), AUDIT_SECRET)).to.deep.equal({
        valid: true,
        events: 3,
      })
    })
  }

  it('a number above 2^53 is valid in every notation of the same double', async () => {
    const lines = await auditedLines((manager) => manager.emit('a.1', { attributes: { big: 1e21, zero: 0 } }))
    const other = replaced(
      lines,
      1,
      at(lines, 1).replace('1e+21', '1000000000000000000000.00').replace('"zero":0', '"zero":-0'),
    )
    expect(other).not.to.deep.equal(lines)
    expect(await verifyAudit(other, AUDIT_SECRET)).to.deep.equal({ valid: true, events: 1 })
  })

  it('a line separator of Unicode within a line is valid in bytes', async () => {
    const lines = await auditedLines((manager) =>
      manager.emit('a.1', { attributes: { text: 'x\u2028\u2029\u0085y' } }),
    )
    expect(lines[1]).to.include('\u2028')
    expect(await verifyAudit([Buffer.from(lines.join('\n'))], AUDIT_SECRET)).to.deep.equal({
      valid: true,
      events: 1,
    })
  })

  const forged = (attributes: Json) => JSON.stringify({ name: 'a.x', attributes })
  const own = { 'kit.audit.chain': 'x', 'kit.audit.seq': 2, 'kit.audit.mac': '0'.repeat(64) }
  type Break = readonly [
    what: string,
    change: (lines: string[]) => readonly unknown[],
    seq: number,
    reason: string,
  ]
  const MAC = 'kit.audit.mac'
  /** Changes of a line after which its MAC is wrong. */
  const CHANGES: readonly (readonly [what: string, index: number, change: (line: Line) => void])[] = [
    ['a changed attribute', 2, ({ attributes }) => Object.assign(attributes, { index: 7 })],
    ['a changed name', 2, (line) => Object.assign(line, { name: 'a.9' })],
    ['an added member', 2, (line) => Object.assign(line, { extra: null })],
    ['a second MAC outside of the attributes', 2, (line) => Object.assign(line, { [MAC]: 'x' })],
    ['a removed member', 2, (line) => delete line.actor],
    ['a number as a string', 2, ({ attributes }) => Object.assign(attributes, { index: '2' })],
    ['a changed opening line', 0, (line) => Object.assign(line, { service: 'x' })],
    [
      'a MAC in capitals',
      2,
      ({ attributes }) => Object.assign(attributes, { [MAC]: String(attributes[MAC]).toUpperCase() }),
    ],
    ['an empty MAC', 2, ({ attributes }) => Object.assign(attributes, { [MAC]: '' })],
    ['a closing line without its mark', 4, ({ attributes }) => delete attributes['kit.audit.end']],
  ]
  const insert = (line: unknown) => (lines: string[]) => lines.toSpliced(2, 0, line as string)
  const edit = (from: string, to: string) => (lines: string[]) =>
    replaced(lines, 2, at(lines, 2).replace(from, to))
  const deep = (open: string, close: string, count: number) => open.repeat(count) + close.repeat(count)
  const breaks: readonly Break[] = [
    ['no line', () => [], 0, 'the log is empty'],
    ['only empty lines', () => ['', ' '], 0, 'the log is empty'],
    ['a missing opening line', (lines) => lines.slice(1), 0, 'the opening line of the chain is missing'],
    ['a missing event', (lines) => lines.toSpliced(2, 1), 2, 'the sequence number 2 is missing before 3'],
    ['a missing closing line', (lines) => lines.slice(0, -1), 4, 'the closing line of a chain is missing'],
    ['a cut end', (lines) => lines.slice(0, 2), 2, 'the closing line of a chain is missing'],
    ['a half line', (lines) => [...lines.slice(0, 4), at(lines, 4).slice(0, 40)], 4, 'not valid JSON'],
    ['a repeated event', (lines) => lines.toSpliced(2, 0, at(lines, 2)), 2, 'repeated'],
    [
      'swapped events',
      (lines) => [at(lines, 0), at(lines, 2), at(lines, 1), at(lines, 3), at(lines, 4)],
      1,
      'is missing before 2',
    ],
    ['a repeated chain', (lines) => [...lines, ...lines], 0, 'after the closing line'],
    ['an event after the closing line', (lines) => [...lines, at(lines, 2)], 2, 'after the closing line'],
    ...CHANGES.map(([what, index, change]): Break => {
      const changeAt = (lines: string[]) => replaced(lines, index, changed(at(lines, index), change))
      return [what, changeAt, index, 'the MAC is wrong']
    }),
    ['a member called __proto__', edit('{', '{"__proto__":{"valid":true},'), 2, 'the MAC is wrong'],
    ['a line of an unknown chain', insert(forged(own)), 0, 'the opening line of the chain is missing'],
    ['a forged opening line', insert(forged({ ...own, 'kit.audit.seq': 0 })), 0, 'the MAC is wrong'],
    ['a member that occurs twice', edit('{"name"', '{"name":"a.forged","name"'), 2, 'the same member twice'],
    [
      'an object that occurs twice',
      edit('"attributes":', '"attributes":{},"attributes":'),
      2,
      'member twice',
    ],
    ['a byte order mark', (lines) => replaced(lines, 1, `\ufeff${lines[1]}`), 1, 'not valid JSON'],
    ['a NUL character', (lines) => replaced(lines, 2, `${lines[2]}\0`), 2, 'not valid JSON'],
    ['two objects in one line', (lines) => replaced(lines, 2, `${lines[2]}${lines[2]}`), 2, 'not valid JSON'],
    ['bytes that are not UTF-8', insert(Buffer.from([0x22, 0xff, 0x22])), 2, 'not valid UTF-8'],
    ['a line that is not a string', insert({ name: 'a.1' }), 2, 'not a string'],
    ['a line of null', insert(null), 2, 'not a string'],
    ['a longer line than 8 MiB', insert(' '.repeat(8 * 2 ** 20 + 1)), 2, 'longer than 8388608'],
    ['more bytes than 8 MiB', insert(Buffer.alloc(8 * 2 ** 20 + 1, 0x20)), 2, 'longer than 8388608'],
    ['deep arrays', insert(deep('[', ']', 3e5)), 2, 'attributes of an audited event'],
    [
      'deep arrays within an event',
      edit('{"index":2', `{"deep":${deep('[', ']', 3e5)},"index":2`),
      2,
      'nested too deeply',
    ],
    [
      'deep objects within an event',
      edit('{"index":2', `{"deep":${'{"a":'.repeat(1e5)}1${'}'.repeat(1e5)},"index":2`),
      2,
      'nested too deeply',
    ],
    ...[
      'null',
      '1',
      '"x"',
      '[]',
      '{}',
      '{"attributes":[]}',
      '{"attributes":null}',
      '{"__proto__":{"attributes":{}}}',
    ].map((line): Break => [`the line ${line}`, insert(line), 2, 'attributes of an audited event']),
    ...[-1, 1.5, '2', null, 2 ** 53, true, [2]].map(
      (seq): Break => [
        `the sequence number ${JSON.stringify(seq)}`,
        insert(forged({ ...own, 'kit.audit.seq': seq })),
        2,
        'does not have a sequence number',
      ],
    ),
    ...['kit.audit.chain', MAC].flatMap((name) =>
      [1, null, {}, ['x']].map(
        (value): Break => [
          `${name} ${JSON.stringify(value)}`,
          insert(forged({ ...own, [name]: value })),
          2,
          'does not have strings',
        ],
      ),
    ),
  ]
  for (const [what, change, seq, reason] of breaks) {
    it(`${what} is a break at the sequence number ${seq}`, async () => {
      const lines = change(await threeEvents()) as string[]
      const result = await verifyAudit(lines, AUDIT_SECRET)
      expect(result.valid).to.equal(false)
      expect(result.firstBreak?.seq).to.equal(seq)
      expect(result.firstBreak?.reason).to.include(reason)
      expect(Object.keys(result)).to.deep.equal(['valid', 'events', 'firstBreak'])
    })
  }

  it('lines with the MACs of another secret are a break at the opening line', async () => {
    const { firstBreak } = await verifyAudit(await threeEvents(), AUDIT_SECRET.replace('S', 's'))
    expect(firstBreak?.seq).to.equal(0)
    expect(firstBreak?.reason).to.include('the secret is not the one of the log')
  })

  it('the reason of a break names the line and contains nothing of it', async () => {
    const lines = await threeEvents()
    const { firstBreak } = await verifyAudit(replaced(lines, 2, '{"S3cr3t":'), AUDIT_SECRET)
    expect(firstBreak?.reason).to.equal('line 3: the line is not valid JSON')
  })

  it('several runs and mixed nodes in one log are valid as a whole', async () => {
    const [one, two, three] = await Promise.all([threeEvents(), threeEvents(), threeEvents()])
    const mixed = one.flatMap((line, index) => [line, at(two, index)])
    expect(await verifyAudit([...mixed, ...three], AUDIT_SECRET)).to.deep.equal({ valid: true, events: 9 })
  })

  it('a log with more than 100,000 chains is a break at the first line of the next one', async () => {
    const [opening = ''] = await auditedLines(() => {})
    const key = auditKey('verifyAudit', 'secret', AUDIT_SECRET)
    const chain = String(read(opening).attributes['kit.audit.chain'])
    const canonical = new CanonicalForm().of(read(opening))
    async function* openings() {
      for (let number = 0; number <= 100_001; number++) {
        const mac = key(messageOf('', canonical.replace(chain, String(number))))
        yield opening.replace(chain, String(number)).replace(/[0-9a-f]{64}/, mac)
      }
    }
    const { firstBreak } = await verifyAudit(openings(), AUDIT_SECRET)
    expect(firstBreak?.seq).to.equal(0)
    expect(firstBreak?.reason).to.match(/^line 100001: the log has more than 100000 chains/)
  })

  it('a killed run in the middle of a log is a break because of its missing closing line', async () => {
    const [killed, restarted] = await Promise.all([threeEvents(), threeEvents()])
    const result = await verifyAudit([...killed.slice(0, 3), ...restarted], AUDIT_SECRET)
    expect(result).to.deep.include({ valid: false, events: 5 })
    expect(result.firstBreak?.seq).to.equal(3)
    expect(result.firstBreak?.reason).to.include('was killed')
  })

  it('an event that is moved to another chain with the same secret is a break', async () => {
    const [one, two] = await Promise.all([threeEvents(), threeEvents()])
    const moved = changed(at(two, 2), (line) => {
      line.attributes['kit.audit.chain'] = read(at(one, 2)).attributes['kit.audit.chain']
    })
    const { firstBreak } = await verifyAudit(replaced(one, 2, moved), AUDIT_SECRET)
    expect(firstBreak?.seq).to.equal(2)
  })

  it('the iteration ends at the first break', async () => {
    let isReturned = false
    const source = {
      [Symbol.asyncIterator]: () => ({
        next: async () => ({ done: false, value: 'x' }),
        return: async () => {
          isReturned = true
          return { done: true, value: undefined }
        },
      }),
    }
    expect((await verifyAudit(source as AsyncIterable<string>, AUDIT_SECRET)).valid).to.equal(false)
    expect(isReturned).to.equal(true)
  })

  it('an error of the iteration is thrown as it is', async () => {
    const failure = new Error('EIO')
    const broken: AsyncIterable<string> = {
      [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(failure) }),
    }
    const thrown = await verifyAudit(broken, AUDIT_SECRET).catch((error: unknown) => error)
    expect(thrown).to.equal(failure)
  })

  for (const [what, lines] of [
    ['a string', 'x'],
    ['null', null],
    ['a number', 5],
    ['an object', {}],
  ] as const) {
    it(`lines that are ${what} are rejected`, () =>
      expectRejection('TELEMETRY_CONFIGURATION_INVALID', verifyAudit(lines as never, AUDIT_SECRET)))
  }

  it('every change of a line is a break, and no line throws', async () => {
    const lines = await threeEvents()
    const canonical = (line: string) => rewritten(JSON.parse(line))
    await fc.assert(
      fc.asyncProperty(
        fc.nat(4),
        fc.nat(),
        fc.nat(),
        fc.oneof(
          fc.string({ unit: anyCharacter, maxLength: 3 }),
          fc.constantFrom('"', '{', '}', ':', ',', '\\', '0', '\n'),
        ),
        async (index, start, length, text) => {
          const line = at(lines, index)
          const from = start % line.length
          const other = line.slice(0, from) + text + line.slice(from + (length % 4))
          try {
            // The same JSON is not a change.
            fc.pre(canonical(other) !== canonical(line))
          } catch (error) {
            if (!(error instanceof SyntaxError)) throw error
          }
          const { valid } = await verifyAudit(replaced(lines, index, other), AUDIT_SECRET)
          expect(valid).to.equal(false)
        },
      ),
      { numRuns: runs(500) },
    )
  })

  it('any JSON in place of a line is a break, and no JSON throws', async () => {
    const lines = await threeEvents()
    await fc.assert(
      fc.asyncProperty(fc.nat(4), fc.json({ maxDepth: 6 }), fc.jsonValue(), async (index, json, value) => {
        const withOwn = changed(at(lines, index), (line) => {
          line.attributes.index = value
        })
        for (const other of [json, withOwn])
          if (rewritten(JSON.parse(other)) !== rewritten(JSON.parse(at(lines, index))))
            expect((await verifyAudit(replaced(lines, index, other), AUDIT_SECRET)).valid).to.equal(false)
      }),
      { numRuns: runs(500) },
    )
  })
})
