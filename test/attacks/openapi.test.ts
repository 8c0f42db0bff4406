import { expect } from 'chai'
import { tableOf } from '../../src/mcp/router/router.ts'
import { toolsFromOpenApi } from '../../src/openapi/index.ts'
import { documentOf, OK } from '../support/openapi/documents.ts'

/** Resolves with the request that a route receives for the given arguments. */
async function sent(parameters: readonly object[], args: object, path = '/echo', openapi = '3.0.3') {
  const document = documentOf(
    { [path]: { get: { operationId: 'echo', parameters, responses: OK } } },
    { openapi },
  )
  const app = (req: { url?: string; headers: object }, res: { end(text: string): void }) =>
    res.end(JSON.stringify({ url: req.url, headers: req.headers }))
  const table = tableOf(await toolsFromOpenApi(document, { app: app as never }))
  const handler = table.tools.get('echo')?.handler as any
  const result = await handler(args, { signal: new AbortController().signal })
  return JSON.parse(result.content[0].text)
}

async function refusal(parameters: readonly object[], args: object, path?: string): Promise<string> {
  return await sent(parameters, args, path).then(
    () => expect.fail('it was sent'),
    (error: Error) => error.message,
  )
}

const cookie = (rest: object = {}) => ({
  name: 'color',
  in: 'cookie',
  schema: {},
  allowReserved: true,
  ...rest,
})
const query = (rest: object = {}) => ({
  name: 'color',
  in: 'query',
  schema: {},
  allowReserved: true,
  ...rest,
})

for (const [attack, parameter, value, expected] of [
  ['a cookie with a second cookie in its value', cookie(), 'a; admin=1', 'color=a%3B%20admin%3D1'],
  ['a cookie with a semicolon in its value', cookie(), 'a;admin', 'color=a%3Badmin'],
  ['a cookie with a comma and quotation marks', cookie(), 'a,"b"', 'color=a%2C%22b%22'],
  ['a cookie with a line break', cookie(), 'a\r\nx-admin: 1', 'color=a%0D%0Ax-admin%3A%201'],
  ['a list of cookies', cookie({ explode: true }), ['a;b', 'c'], 'color=a%3Bb; color=c'],
  ['a list in one cookie', cookie({ explode: false }), ['a,b;c', 'd'], 'color=a%2Cb%3Bc,d'],
  ['an object of cookies', cookie({ explode: true }), { 'a;b': 'c;d' }, 'a%3Bb=c%3Bd'],
] as const)
  it(`arguments of OpenAPI tools: ${attack}: the value is not split`, async () =>
    void expect((await sent([parameter], { color: value })).headers.cookie).to.equal(expected))

it('arguments of OpenAPI tools: a list in the query with a comma in an element that may hold reserved characters: the element is not split', async () =>
  void expect((await sent([query({ explode: false })], { color: ['a,b', 'c/d'] })).url).to.equal(
    '/echo?color=a%2Cb,c/d',
  ))

it('arguments of OpenAPI tools: reserved characters that end a value of the query: they are encoded', async () =>
  void expect((await sent([query()], { color: 'a&b=c#d+e%' })).url).to.equal(
    '/echo?color=a%26b%3Dc%23d%2Be%25',
  ))

for (const place of ['query', 'cookie'] as const)
  it(`arguments of OpenAPI tools: a member of an object with the name of another parameter (${place}): the arguments are rejected`, async () => {
    const parameters = [
      { name: 'filter', in: place, schema: { type: 'object' }, explode: true },
      { name: 'tenant', in: place, schema: {} },
    ]
    expect(await refusal(parameters, { filter: { tenant: 'other' } })).to.contain("'tenant'")
    expect(await sent(parameters, { filter: { color: 'blue' }, tenant: 'own' })).to.be.an('object')
  })

it('arguments of OpenAPI tools: a header with a line break: the arguments are rejected', async () =>
  void expect(
    await refusal([{ name: 'X-Color', in: 'header', schema: {} }], { 'X-Color': 'a\r\nx-admin: 1' }),
  ).to.contain('one line'))

for (const value of ['', '.', '..'])
  it(`arguments of OpenAPI tools: a path parameter that is '${value}': the arguments are rejected`, async () =>
    void expect(
      await refusal([{ name: 'id', in: 'path', required: true, schema: {} }], { id: value }, '/users/{id}'),
    ).to.contain('must not be empty'))

it('arguments of OpenAPI tools: a path parameter with slashes: the parameter is one segment', async () =>
  void expect(
    (
      await sent(
        [{ name: 'id', in: 'path', required: true, schema: {} }],
        { id: '../admin?x#y' },
        '/users/{id}',
      )
    ).url,
  ).to.equal('/users/..%2Fadmin%3Fx%23y'))
