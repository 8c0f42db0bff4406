import { createHash, createHmac } from 'node:crypto'
import { expect } from 'chai'
import * as root from '../../../src/index.ts'
import {
  COMMON_SECRET_PATTERNS,
  KitTelemetryError,
  type TelemetryRedactionPattern,
  type TelemetryRedactionPolicy,
} from '../../../src/telemetry/index.ts'
import { emitted, recording } from '../../support/telemetry/recording.ts'

const redacted = (text: string, policy: TelemetryRedactionPolicy = { patterns: COMMON_SECRET_PATTERNS }) =>
  emitted({ attributes: { text } }, (builder) => builder.withRedaction(policy)).attributes?.text

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

/** Repeats a character class often enough for a key. */
const key = (length: number) => 'a1B2c3D4e5F6g7H8i9J0'.repeat(5).slice(0, length)
const hex = (length: number) => '0a1b2c3d4e5f6789'.repeat(5).slice(0, length)
const jwt = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl'

describe('COMMON_SECRET_PATTERNS', () => {
  it('COMMON_SECRET_PATTERNS is frozen, and is the same object in every entry', () => {
    expect(Object.isFrozen(COMMON_SECRET_PATTERNS)).to.equal(true)
    expect(COMMON_SECRET_PATTERNS.every((pattern) => Object.isFrozen(pattern))).to.equal(true)
    expect(root.COMMON_SECRET_PATTERNS).to.equal(COMMON_SECRET_PATTERNS)
    expect(COMMON_SECRET_PATTERNS.map(({ name }) => name)).to.deep.equal([
      'private-key',
      'url-credentials',
      'bearer',
      'jwt',
      'api-key',
      'email',
      'iban',
      'card',
    ])
  })

  const FOUND: readonly (readonly [text: string, expected: string])[] = [
    ['write to ada.lovelace+news@mail.example.co.uk, please', 'write to [email], please'],
    ['/users?email=ada%2Bnews%40example.com&page=2', '/users?email=[email]&page=2'],
    ['<ådå@exämple.se>', '<[email]>'],
    ['a@b.co', '[email]'],
    ['ada@example.com,bob@example.com', '[email],[email]'],
    ['card 4242 4242 4242 4242 2026', 'card [card] 2026'],
    ['42 4111-1111-1111-1111', '42 [card]'],
    ['{"number":"378282246310005"}', '{"number":"[card]"}'],
    ['30569309025904 6011111111111117 3530111333300000', '[card] [card] [card]'],
    ['5555555555554444\n6200000000000005', '[card]\n[card]'],
    ['IBAN DE89 3704 0044 0532 0130 00.', 'IBAN [iban].'],
    ['from GB82WEST12345698765432 to no9386011117947', 'from [iban] to [iban]'],
    ['MT84MALT011000012345MTLCAST001S FR14 2004 1010 0505 0001 3M02 606', '[iban] [iban]'],
    [`token=${jwt};`, 'token=[jwt];'],
    ['eyJabcde.eyJz.x', '[jwt]'],
    ['eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZGEifQ.', '[jwt]'],
    [`Authorization: Bearer ${jwt}`, 'Authorization: [bearer]'],
    ['authorization=BEARER%20s3cr3t-token', 'authorization=[bearer]'],
    ['"Authorization": "Bearer secret"', '"Authorization": "[bearer]"'],
    [`DPoP ${key(20)} end`, '[bearer] end'],
    ['DPoP 42', '[bearer]'],
    ['{"authorization":"Bearer dG9rZW4tdG9rZW4=="}', '{"authorization":"[bearer]"}'],
    [String.raw`{"body":"{\"auth\":\"Bearer abc==\"}"}`, String.raw`{"body":"{\"auth\":\"[bearer]\"}"}`],
    ['curl -H "Authorization: bearer YWJj=" x', 'curl -H "Authorization: [bearer]" x'],
    ['(Bearer abcdefghijklmnop)', '([bearer])'],
    ["'dpop a.b'", "'[bearer]'"],
    ['use BEARER x_y', 'use [bearer]'],
    ['Bearer%20abc%2Bdef%2Fghi%3D%3D&x', '[bearer]&x'],
    [String.raw`Bearer abc\/def\u002Bghi\u003d"`, '[bearer]"'],
    [String.raw`\"authorization\": \"Bearer secret\"`, String.raw`\"authorization\": \"[bearer]\"`],
    ['authorization%3A+Bearer%20secret', 'authorization%3A+[bearer]'],
    [`x Basic ${btoa('ada:pa')} y`, 'x [bearer] y'],
    [`"basic ${btoa('ada:correct horse')}"`, '"[bearer]"'],
    ['Proxy-Authorization: Basic whatever', 'Proxy-Authorization: [bearer]'],
    ['postgres://ada:s3cret@db.example.com/x', 'postgres://ada:[url-credentials]@db.example.com/x'],
    [
      'redis://:pw@cache:6379, amqp://a:b@q',
      'redis://:[url-credentials]@cache:6379, amqp://a:[url-credentials]@q',
    ],
    [
      '{"url":"mongodb+srv://u:p%40ss@h","to":"a@b"}',
      '{"url":"mongodb+srv://u:[url-credentials]@h","to":"a@b"}',
    ],
    ['https://u@corp:p@ss:w@host', 'https://u@corp:[url-credentials]@host'],
    [String.raw`redis:\/\/:pw@host`, String.raw`redis:\/\/:[url-credentials]@host`],
    [
      '?db=postgres%3A%2F%2Fu%3Ap%2540w%40host%2Fdb&x=1',
      '?db=postgres%3A%2F%2Fu%3A[url-credentials]%40host%2Fdb&x=1',
    ],
    ['42,4242424242424242,12/27', '42,[card],12/27'],
    ['card%204242424242424242%2C', 'card%20[card]%2C'],
    [
      String.raw`\n4242424242424242 \u0022DE89370400440532013000\u0022`,
      String.raw`\n[card] \u0022[iban]\u0022`,
    ],
    ['eyJhbGciOiJIUzI1NiJ9.eyJz…', '[jwt]…'],
    [`sk-${'a'.repeat(20)}`, '[api-key]'],
    [`sk-ant-${'word-'.repeat(4)}X`, '[api-key]'],
    ['ada@2x.png.example.com', '[email]'],
    ['a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- b', 'a [private-key] b'],
    ['{"key":"-----BEGIN PRIVATE KEY-----\\nMIIEvQ', '{"key":"[private-key]'],
    ['-----BEGIN PGP PRIVATE KEY BLOCK-----\nx', '[private-key]'],
    ...[
      'AKIAIOSFODNN7EXAMPLE',
      `AIza${key(35)}`,
      `GOCSPX-${key(28)}`,
      `ya29.${key(40)}`,
      `ghp_${key(36)}`,
      `github_pat_${key(22)}_${key(59)}`,
      `glpat-${key(20)}`,
      `sk-proj-${key(48)}`,
      `sk-ant-api03-${key(48)}`,
      `sk_live_${key(24)}`,
      `whsec_${key(32)}`,
      `xoxb-123456789012-${key(24)}`,
      `npm_${key(36)}`,
      `pypi-${key(60)}`,
      `SG.${key(22)}.${key(43)}`,
      `SK${hex(32)}`,
      `hf_${key(34)}`,
      `dop_v1_${hex(64)}`,
      `shpat_${hex(32)}`,
      `hvs.${key(24)}`,
      `dapi${hex(32)}`,
      `123456789:AA${key(33)}`,
      ...['AKIA', 'ASIA', 'ABIA', 'ACCA'].map((prefix) => `${prefix}0A1B2C3D4E5F6G7H`),
      ...['o', 'p', 's', 'u', 'r'].map((letter) => `gh${letter}_${key(20)}`),
      `ATATT3${key(20)}=1F`,
      `AGE-SECRET-KEY-1${'Q0P1'.repeat(5)}`,
      `NRAK-${'Q0P1'.repeat(5)}`,
      `PMAK-${key(20)}`,
      `figd_${key(20)}`,
      `glsa_${key(20)}`,
      `gsk_${key(20)}`,
      `key-${hex(32)}`,
      `lin_api_${key(20)}`,
      `pplx-${key(20)}`,
      `r8_${key(20)}`,
      `rk_test_${key(10)}`,
      `sbp_${hex(40)}`,
      `sk_test_${key(10)}`,
      `sntrys_eyJp+/${key(20)}==`,
      `sq0atp-${key(20)}`,
      `whsec_a+/${key(20)}=`,
      `xai-${key(20)}`,
      `xapp-1-${key(10)}`,
      `xoxp-${key(10)}`,
    ].map(
      (secret) =>
        [
          `/?k=${secret}&x`,
          secret.includes(':AA') ? '/?k=123456789:[api-key]&x' : '/?k=[api-key]&x',
        ] as const,
    ),
    [`%3Dsk-${key(30)}`, '%3D[api-key]'],
  ]
  for (const [text, expected] of FOUND) {
    it(`the common patterns replace ${JSON.stringify(text)} with ${JSON.stringify(expected)}`, () => {
      expect(redacted(text)).to.equal(expected)
    })
  }

  const KEPT = [
    ...['', 'x', 'pkg@1.2.3', '@scope/name', 'ada@localhost', 'a@b', '50%40'],
    ...[
      '4242 4242 4242 4243',
      '1234567890123456',
      '0.4242424242424242',
      '42424242424242424242',
      '2026-11-22 20:36:00',
    ],
    ...[
      'DE89370400440532013001',
      'XX89370400440532013000',
      'DE8937040044053201300',
      'xDE89370400440532013000',
    ],
    ...['eyJ', 'eyJabcd.eyJz.x', 'eyJhbGciOiJIUzI1NiJ9', 'eyJhbGci.eyJz', 'Bearer authentication failed.'],
    ...['Bearer realm="mcp", error="invalid_token"', 'risk-assessment-of-the-whole-document', 'AKIA1234'],
    ...[
      `xsk-${key(30)}`,
      `%3sk-${key(30)}`,
      `SK${hex(33)}`,
      `1234567:AA${key(33)}`,
      `SG.${key(65)}.${key(16)}`,
    ],
    ...[
      'Bearer tokens.',
      'a bearer token-based flow',
      '"bearer authentication"',
      String.raw`Bearer realm=\"mcp\"`,
      'Bearer resource_metadata="https://mcp.example.com"',
      'DPoP algs="ES256"',
      'Basic authentication',
      'Basic realm="x"',
      'basic auth or BASIC information.',
      'Basic dGhlIG5leHQgd29yZA==',
    ],
    ...[
      'ssh://git@host:22/x',
      'http://host:8080/@x',
      'http://host:80?a@b',
      'https://u@host',
      'a:b@c',
      '//:x@y',
      'x://a:@b',
    ],
    ...[
      'x4242424242424242',
      '4242424242424242y',
      '7.4242424242424242',
      '0.4242424242424242 0.5',
      'DE89370400440532013000x',
    ],
    ...[
      '550e8400-e29b-41d4-4242-424242424242',
      '/v1/550e8400-e29b-4242-4242-424242424242/items',
      'order DE894370-4004-4053-2013-000000000000 failed',
      '00-4bf92f3577b34da6a3ce929d0e0e4736-4242424242424242-01',
    ],
    ...[
      'sk-learn-pipeline-transformer',
      'data-sk-component-button-primary',
      'logo@2x.png',
      'see a.b@3x.webp.',
    ],
    ...[
      '-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----',
      '550e8400-e29b-41d4-a716-446655440000',
    ],
    ...['ses_01KAAAAAAAAAAAAAAAAAAAAAAA', sha256('x')],
  ]
  for (const text of KEPT) {
    it(`the common patterns keep ${JSON.stringify(text)}`, () => {
      expect(redacted(text)).to.equal(text)
    })
  }
})

describe('patterns', () => {
  const CUSTOMER: TelemetryRedactionPattern = { name: 'customer', pattern: /\bcus_\w{1,32}/ }
  const copyOf = (name: string, replace: 'hash' | 'remove') => ({
    ...(COMMON_SECRET_PATTERNS.find((pattern) => pattern.name === name) as TelemetryRedactionPattern),
    replace,
  })

  it('patterns apply in attributes, tags, and the message and the stack of an error, but not in ids and keys', () => {
    const error = new Error('no cus_1', { cause: new Error('caused by cus_2') })
    error.stack = 'Error: no cus_1'
    const {
      attributes,
      actor,
      scope,
      error: info,
    } = emitted(
      {
        attributes: { cus_1: 'cus_1', list: [{ a: 'x cus_2' }], error: new Error('cus_3') },
        actor: { type: 'user', id: 'cus_1', tags: { a: 'cus_1' } },
        scope: { type: 'org', id: 'cus_1', tags: { a: ['cus_1'] } },
        error,
      },
      (builder) => builder.withRedaction({ patterns: [CUSTOMER] }),
    )
    expect(attributes).to.deep.include({ cus_1: '[customer]', list: [{ a: 'x [customer]' }] })
    expect(JSON.stringify(attributes)).not.to.include('cus_3')
    expect(actor).to.deep.equal({ type: 'user', id: 'cus_1', tags: { a: '[customer]' } })
    expect(scope).to.deep.equal({ type: 'org', id: 'cus_1', tags: { a: ['[customer]'] } })
    expect(info?.message).to.equal('no [customer]')
    expect(info?.stack).to.match(/^Error: no \[customer\]\nCaused by: Error: caused by \[customer\]/)
  })

  it('patterns apply in the name and the code of an error, which are not cut, and in a BigInt', () => {
    const { error, attributes } = emitted(
      {
        error: Object.assign(new Error('m'), { name: 'Cus of cus_1', code: 'E_CUS_IS cus_22' }),
        attributes: { big: 4242424242424242n, list: new BigUint64Array([4242424242424242n, 42n]) },
      },
      (builder) =>
        builder.withRedaction({ patterns: [CUSTOMER, ...COMMON_SECRET_PATTERNS], maxStringLength: 6 }),
    )
    expect(error).to.include({ name: 'Cus of [customer]', code: 'E_CUS_IS [customer]', message: 'm' })
    expect(attributes).to.deep.equal({ big: '[card]', list: ['[card]', '42'] })
  })

  it('the values that a session passes on are searched for patterns', () => {
    const { builder, events } = recording()
    const manager = builder.withRedaction({ patterns: [CUSTOMER] }).build()
    manager.session().attributes({ a: 'cus_1' }).emit('x')
    expect(events()[0]?.attributes).to.deep.equal({ a: '[customer]' })
  })

  it('patterns apply before a string is cut, and not to values that are hashed', () => {
    const policy = { patterns: [CUSTOMER], maxStringLength: 12, hashKeys: ['h'] }
    const { attributes } = emitted(
      { attributes: { text: 'abcdef cus_1234567890 z', h: 'cus_1' } },
      (builder) => builder.withRedaction(policy),
    )
    expect(attributes).to.deep.equal({ text: 'abcdef [cus…', h: sha256('cus_1') })
  })

  const KEY = `-----BEGIN PRIVATE KEY-----${'k'.repeat(420)}-----END PRIVATE KEY-----`
  const LONG: readonly (readonly [what: string, text: string, expected: string])[] = [
    ['a secret after the searched part', `${'x '.repeat(260)}ada@example.com`, `${'x '.repeat(24)}x…`],
    ['a key at the end of the searched part, after a long secret', `${KEY} ghp_${key(60)}`, '[private-key]…'],
    [
      'a card number at the end of the searched part',
      `${KEY} 4242 4242 4242 4242 ${'x'.repeat(99)}`,
      '[private-key]…',
    ],
    [
      'a private key that is longer than the searched part',
      KEY.replace('k', 'k'.repeat(999)),
      '[private-key]…',
    ],
    ['a bearer token that is longer than the searched part', `x Bearer ${'a'.repeat(999)}`, 'x [bearer]…'],
    [
      'a JWT that is longer than the searched part',
      `x eyJhbGciOiJSUzI1NiJ9.${'a'.repeat(999)}.b`,
      'x [jwt]…',
    ],
    ['no secret', 'x'.repeat(999), `${'x'.repeat(49)}…`],
    ['pairs of surrogates', 'x🎉'.repeat(999), `${'x🎉'.repeat(16)}x…`],
    ['many secrets', 'a@b.co '.repeat(999), `${'[email] '.repeat(6)}[…`],
    [
      'a secret in its first half, and nothing else',
      `${KEY.slice(0, 200)}-----END PRIVATE KEY-----${'🎉'.repeat(400)}`,
      `[private-key]${'🎉'.repeat(12)}…`,
    ],
  ]
  for (const [what, text, expected] of LONG) {
    it(`of a string of more than 10 × maxStringLength characters with ${what}, no part of a secret is sent`, () => {
      const sent = redacted(text, { patterns: COMMON_SECRET_PATTERNS, maxStringLength: 50 })
      expect(sent).to.equal(expected)
    })
  }

  const REPLACED: readonly (readonly [policy: TelemetryRedactionPolicy, text: string, expected: string])[] = [
    [{ patterns: [{ ...CUSTOMER, replace: 'mask' }] }, 'a cus_1 b cus_2', 'a [customer] b [customer]'],
    [{ patterns: [{ ...CUSTOMER, replace: 'remove' }] }, 'a cus_1 b', 'a  b'],
    [{ patterns: [{ ...CUSTOMER, replace: 'hash' }] }, 'a cus_1 b', `a ${sha256('cus_1')} b`],
    [
      { patterns: [{ ...CUSTOMER, replace: 'hash' }], hashSecret: 's' },
      'cus_1',
      createHmac('sha256', 's').update('cus_1').digest('hex'),
    ],
    [{ patterns: [copyOf('card', 'remove')] }, '4242424242424242,4242424242424243', ',4242424242424243'],
    [
      { patterns: [copyOf('iban', 'remove')] },
      'DE89370400440532013000,DE89370400440532013001',
      ',DE89370400440532013001',
    ],
    [
      { patterns: [CUSTOMER, { name: 'rest', pattern: /[a-z]{1,9}/ }] },
      'ab cus_1 c',
      '[rest] [customer] [rest]',
    ],
    [{ patterns: [{ name: 'x', pattern: /x{0,3}/gi }] }, 'aXxb', 'a[x]b'],
    [{ patterns: [{ name: 'x', pattern: /(?:)/u }] }, '🎉a', '🎉a'],
    [
      { patterns: [{ name: '$&', pattern: /x/ }].map((pattern) => ({ ...pattern, name: 'a' })) },
      'x$&',
      '[a]$&',
    ],
  ]
  for (const [policy, text, expected] of REPLACED) {
    const shown = policy.patterns?.map(
      ({ pattern, replace = 'mask' }) => `${replace} ${String(pattern).slice(0, 30)}`,
    )
    it(`patterns ${shown} change ${JSON.stringify(text)} to ${JSON.stringify(expected.slice(0, 40))}`, () => {
      expect(redacted(text, policy)).to.equal(expected)
      expect(redacted(text, policy)).to.equal(expected)
    })
  }

  it('a further call of withRedaction without patterns keeps them, and undefined removes them', () => {
    const kept = (last: TelemetryRedactionPolicy) =>
      emitted({ attributes: { a: 'cus_1' } }, (builder) =>
        builder.withRedaction({ patterns: [CUSTOMER] }).withRedaction(last),
      ).attributes
    expect(kept({ hashKeys: [] })).to.deep.equal({ a: '[customer]' })
    expect(kept({ patterns: undefined })).to.deep.equal({ a: 'cus_1' })
  })

  it('buildConfig() has frozen copies of the patterns', () => {
    const patterns = [{ ...CUSTOMER }]
    const { redaction } = recording().builder.withRedaction({ patterns }).buildConfig()
    patterns.pop()
    expect(redaction.patterns).to.deep.equal([CUSTOMER])
    expect(Object.isFrozen(redaction.patterns) && Object.isFrozen(redaction.patterns[0])).to.equal(true)
  })

  const WRONG: readonly (readonly [pattern: unknown, message: RegExp])[] = [
    ['x', /patterns \}\)\[0\] must be an object with name and pattern/],
    [{ name: 'x', pattern: 'x' }, /\[0\]\.pattern must be a RegExp/],
    ...['', 'a b', 'a]', '1a', 'a\n', 'a'.repeat(65), 5].map(
      (name) => [{ name, pattern: /x/ }, /\[0\]\.name must be a letter/] as const,
    ),
    [{ name: 'x', pattern: /x/, replace: 'masks' }, /\[0\]\.replace must be 'mask', 'hash' or 'remove'/],
    [{ name: 'x', pattern: /x/, mask: 'x' }, /has no option "?'?mask/],
    [
      { name: 'x', pattern: /(?:a+b)+/ },
      /must not repeat a group without a bound that itself has an unbounded/,
    ],
    [{ name: 'x', pattern: /(a)\1/ }, /must not have a back-reference/],
    [{ name: 'x', pattern: /x/y }, /must not have the flag y/],
  ]
  for (const [pattern, message] of WRONG) {
    const shown =
      pattern instanceof Object && 'pattern' in pattern
        ? { ...pattern, pattern: String(pattern.pattern) }
        : pattern
    it(`the pattern ${JSON.stringify(shown)} is rejected with the reason`, () => {
      const { builder } = recording()
      expect(() => builder.withRedaction({ patterns: [pattern as TelemetryRedactionPattern] }))
        .to.throw(KitTelemetryError, message)
        .with.property('code', 'TELEMETRY_CONFIGURATION_INVALID')
    })
  }
})
