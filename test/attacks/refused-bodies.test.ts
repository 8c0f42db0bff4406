import { expect } from 'chai'
import { z } from 'zod'
import { createMcpAdapter, KitMcpRouter, mcpAuth, mcpHandler } from '../../src/index.ts'
import { oauthOptions } from '../support/gate-app.ts'
import { onNode } from '../support/mcp/entry-points.ts'
import { call, definedOf, legacy, modern, type WireAnswer, type WireRequest } from '../support/mcp/wire.ts'
import { RawConnection } from '../support/raw-http.ts'
import { until } from '../support/until.ts'

const MAX_BYTES = 70_000

const setup = {
  router: KitMcpRouter.create().tool('echo', { description: 'x' }, () => 'echo'),
  maxBodyBytes: MAX_BYTES,
  bodyTimeoutMs: 200,
  oauth: oauthOptions({ challengeInResult: true }),
}

const SERVERS = {
  mcpHandler: () => onNode(mcpHandler(createMcpAdapter(setup))),
  'mcpAuth and mcpHandler': () => {
    const adapter = createMcpAdapter(setup)
    return onNode(mcpAuth(adapter), mcpHandler(adapter))
  },
}

/** The beginning of a body that takes more memory than every body may take. */
const LARGE = `{"x":"${'x'.repeat(200_000)}`

/** Sends a request whose body does not end. */
async function hold(
  port: number,
  body = '{',
): Promise<{ close(): void; readonly refused: Promise<boolean> }> {
  const connection = await RawConnection.open(port)
  const head = 'POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n'
  const answer = connection.send(
    `${head}Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n`,
  )
  const refused = answer.then(
    ({ status }) => status === 401,
    () => false,
  )
  return { close: () => connection.close(), refused }
}

/** Returns `true` if a request is refused without waiting for the end of its body. */
async function isAtOnce(refused: Promise<boolean>): Promise<boolean> {
  return await Promise.race([refused, new Promise<false>((resolve) => setTimeout(resolve, 100, false))])
}

/** Returns `true` if a request whose body does not end is refused without waiting for its end. */
async function isRefusedAtOnce(port: number): Promise<boolean> {
  const { close, refused } = await hold(port, LARGE)
  const outcome = await isAtOnce(refused)
  close()
  return outcome
}

async function expectRefused(sent: Promise<WireAnswer>): Promise<WireAnswer> {
  const answer = await sent
  expect(answer.status).to.equal(401)
  expect(answer.headers.get('www-authenticate')).to.match(/^Bearer /)
  return answer
}

for (const [name, start] of Object.entries(SERVERS)) {
  describe(`bodies of requests without a token on ${name}`, () => {
    async function refuses(request: WireRequest): Promise<WireAnswer> {
      const server = await start()
      try {
        const answer = await expectRefused(server.send(request))
        const { status } = await server.send(legacy(call('echo')))
        expect(status).to.equal(200)
        return answer
      } finally {
        await server.close()
      }
    }

    const { headers = {} } = legacy('')
    const padded = JSON.stringify(call('echo')).padEnd(MAX_BYTES)

    it(`requests without a token on ${name}: a body of exactly maxBodyBytes: the call is refused in a result`, async () => {
      const server = await start()
      const { status, message } = await server.send(legacy(padded))
      expect({ status, isError: message.result.isError }).to.deep.equal({ status: 200, isError: true })
      await server.close()
    })

    it(`requests without a token on ${name}: a body of 1 byte more than maxBodyBytes: 401`, async () =>
      void (await refuses(legacy(`${padded} `))))

    it(`requests without a token on ${name}: a body of 1 byte more than maxBodyBytes, in chunks that never end: 401 before the end`, async () =>
      void (await refuses({ headers, body: [padded, ' '], unfinished: true })))

    it(`requests without a token on ${name}: a body that never ends: 401 after bodyTimeoutMs, and the connection closes`, async () => {
      const kept = { ...headers, connection: 'keep-alive' }
      const answer = await refuses({ headers: kept, body: ['{"jsonrpc":"2.0",'], unfinished: true })
      expect(answer.headers.get('connection')).to.equal('close')
    })

    for (const open of ['[', '{"a":'] as const)
      it(`requests without a token on ${name}: JSON of 10 000 levels of ${open}: 401`, async () => {
        const deep =
          open === '[' ? '['.repeat(1e4) + ']'.repeat(1e4) : `${open.repeat(1e4)}1${'}'.repeat(1e4)}`
        const body = JSON.stringify(call('echo', { deep: 'here' })).replace('"here"', deep)
        await refuses(legacy(body))
      })

    it(`requests without a token on ${name}: JSON of brackets that never close: 401`, async () =>
      void (await refuses(legacy('['.repeat(MAX_BYTES)))))

    it(`requests without a token on ${name}: a compressed body: 401`, async () =>
      void (await refuses(legacy(call('echo'), { 'content-encoding': 'gzip' }))))

    it(`requests without a token on ${name}: bytes that are not UTF-8: 401`, async () =>
      void (await refuses({ headers, body: Buffer.alloc(100, 0xff) })))
  })
}

describe('bodies of requests without a token on the web-standard handler', () => {
  it('requests without a token on the web-standard handler: a body without an end, as fast as it is read: 401, and at most maxBodyBytes and one chunk are read', async () => {
    const { server } = createMcpAdapter(setup)
    let pulled = 0
    const body = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          pulled += 1_000
          controller.enqueue(new Uint8Array(1_000).fill(0x20))
        },
      },
      { highWaterMark: 0 },
    )
    const init = {
      method: 'POST',
      headers: definedOf(legacy('').headers ?? {}),
      body,
      duplex: 'half' as const,
    }
    const { status } = await server(new Request('http://localhost/mcp', init))
    expect(status).to.equal(401)
    expect(pulled).to.be.at.most(MAX_BYTES + 2_000)
  })
})

describe('many bodies of requests without a token at the same time', () => {
  it('many requests without a token: 30 bodies of unknown length of which 1 byte has arrived, and a large one: they reserve nothing, so the large one is read', async () => {
    const slow = { ...setup, maxBodyBytes: 4 * 1024 * 1024, bodyTimeoutMs: 60_000 }
    const server = await onNode(mcpHandler(createMcpAdapter(slow)))
    const held = await Promise.all(Array.from({ length: 30 }, () => hold(server.port)))
    const padded = JSON.stringify(call('echo')).padEnd(MAX_BYTES)
    const { status, message } = await server.send({ ...legacy(''), body: [padded] })
    expect({ status, isError: message.result.isError }).to.deep.equal({ status: 200, isError: true })
    for (const { close } of held) close()
    await server.close()
  })

  it('many requests without a token: bodies of which 64 MiB have arrived and which never end, and one more: the further one gets 401 at once until others end, and a small call its result', async () => {
    const large = { ...setup, maxBodyBytes: 2 * 1024 * 1024, bodyTimeoutMs: 60_000 }
    const server = await onNode(mcpHandler(createMcpAdapter(large)))
    const most = ' '.repeat(1_500_000)
    // At most 44 of them fit, if a buffer takes no more than its text.
    const held = await Promise.all(Array.from({ length: 60 }, () => hold(server.port, most)))
    let refusals = 0
    for (const { refused } of held) void refused.then((isRefused) => (refusals += Number(isRefused)))
    await until(() => refusals >= 16)
    // The rest of the memory is filled with smaller bodies.
    await until(async () => {
      const next = await hold(server.port, LARGE)
      held.push(next)
      return await isAtOnce(next.refused)
    })
    const { status, message } = await server.send(legacy(call('echo')))
    expect({ status, isError: message.result.isError }).to.deep.equal({ status: 200, isError: true })
    for (const { close } of held) close()
    await until(async () => !(await isRefusedAtOnce(server.port)))
    await server.close()
  })

  it('many requests without a token: a web-standard request with a body that is longer than its Content-Length: 401, and no more than the length and one chunk are read', async () => {
    const { server } = createMcpAdapter({ ...setup, maxBodyBytes: 32 * 1024 * 1024 })
    let pulled = 0
    const body = new ReadableStream<Uint8Array>(
      {
        pull(controller) {
          pulled += 1_000
          controller.enqueue(new Uint8Array(1_000).fill(0x20))
        },
      },
      { highWaterMark: 0 },
    )
    const headers = { ...definedOf(legacy('').headers ?? {}), 'content-length': '5000' }
    const init = { method: 'POST', headers, body, duplex: 'half' as const }
    expect((await server(new Request('http://localhost/mcp', init))).status).to.equal(401)
    expect(pulled).to.be.at.most(7_000)
  })
})

describe('large bodies that are served at the same time', () => {
  /** A body of about 1 MB that takes about 29 MB as a value. */
  const wide = (token?: string) =>
    modern(
      'tools/call',
      { name: 'wait', arguments: { x: Array.from({ length: 350_000 }, () => ({})) } },
      token === undefined ? {} : { authorization: `Bearer ${token}` },
    )
  let running = 0
  let release: () => void = () => undefined

  const start = async (changes: { readonly anonymous?: true; readonly maxBodyBytes?: number }) => {
    running = 0
    const released = new Promise<void>((resolve) => {
      release = resolve
    })
    const { anonymous, ...limits } = changes
    const router = KitMcpRouter.create().tool(
      'wait',
      { description: 'x', input: z.looseObject({}), public: anonymous === true },
      async () => {
        running++
        await released
        return 'done'
      },
    )
    const oauth = oauthOptions({
      verifyToken: async ({ bearerToken }) => ({ valid: true, user: { id: bearerToken } }),
      ...(anonymous && { anonymous }),
    })
    return await onNode(mcpHandler(createMcpAdapter({ router, oauth, ...limits })))
  }

  it('large bodies that are served: 3 public calls without a token whose values take 29 MB each: two are served and one gets 503 with Retry-After, until the others have their response', async () => {
    const server = await start({ anonymous: true })
    const served = [server.send(wide()), server.send(wide())]
    await until(() => running === 2)
    const { status, headers } = await server.send(wide())
    expect({ status, after: headers.get('retry-after') }).to.deep.equal({ status: 503, after: '5' })
    release()
    for (const one of served) expect((await one).status).to.equal(200)
    expect((await server.send(wide())).status).to.equal(200)
    await server.close()
  })

  it('large bodies that are served: 3 calls of one user whose values take 29 MB each, and one of another user: two are served and one gets 429 with Retry-After; the other user is served', async () => {
    const server = await start({})
    const served = [server.send(wide('ada')), server.send(wide('ada'))]
    await until(() => running === 2)
    const { status, headers } = await server.send(wide('ada'))
    expect({ status, after: headers.get('retry-after') }).to.deep.equal({ status: 429, after: '5' })
    served.push(server.send(wide('bob')))
    await until(() => running === 3)
    release()
    for (const one of served) expect((await one).status).to.equal(200)
    expect((await server.send(wide('ada'))).status).to.equal(200)
    await server.close()
  })

  it('large bodies that are served: a body whose value takes more than 16 times maxBodyBytes: 413, and a string of the same length is served', async () => {
    const server = await start({ maxBodyBytes: 1_100_000 })
    release()
    expect((await server.send(wide('ada'))).status).to.equal(413)
    const long = modern(
      'tools/call',
      { name: 'wait', arguments: { x: '{},'.repeat(350_000) } },
      { authorization: 'Bearer ada' },
    )
    expect((await server.send(long)).status).to.equal(200)
    await server.close()
  })
})

describe('bodies of requests without a token, if challengeInResult is not set', () => {
  it('a request without a token gets its 401 before its body has arrived', async () => {
    const server = await onNode(
      mcpHandler(createMcpAdapter({ ...setup, oauth: oauthOptions(), bodyTimeoutMs: 60_000 })),
    )
    try {
      const { headers = {} } = legacy('')
      await expectRefused(server.send({ headers, body: ['{'], unfinished: true }))
    } finally {
      await server.close()
    }
  })

  it('with challengeInResult auto, a client that is not of OpenAI gets its 401 before its body has arrived', async () => {
    const oauth = oauthOptions({ challengeInResult: 'auto' })
    const server = await onNode(mcpHandler(createMcpAdapter({ ...setup, oauth, bodyTimeoutMs: 60_000 })))
    try {
      const { headers = {} } = legacy('')
      await expectRefused(server.send({ headers, body: ['{'], unfinished: true }))
    } finally {
      await server.close()
    }
  })
})
