import { expect } from 'chai'
import connect, { type NextHandleFunction } from 'connect'
import { expectTypeOf } from 'expect-type'
import { z } from 'zod'
import { type KitContext, KitMcpRouter, mcpAuth, type TemplateVariables } from '../../../src/index.ts'
import { createMcpAdapter, KitMcpServer } from '../../../src/mcp/adapter.ts'
import type { OnVerifiedInput, UserOf, VerifyToken } from '../../../src/oauth/options.ts'

interface Account {
  id: string
  roles: string[]
}

const verifyToken: VerifyToken<any, Account> = () => undefined
const issuer = 'https://auth.example.com'

describe('mcp: types of prompts, resources and users', () => {
  const router = KitMcpRouter.create().context(() => ({ db: 'notes' as const }))

  it('a prompt handler has the types of its arguments and its context', () => {
    router.prompt(
      'a',
      {
        input: z.object({ n: z.coerce.number(), s: z.string().default('d') }),
        complete: {
          s: (value, { arguments: others, context }) => {
            expectTypeOf(value).toEqualTypeOf<string>()
            expectTypeOf(others).toEqualTypeOf<Readonly<Record<string, string>>>()
            expectTypeOf(context).toEqualTypeOf<KitContext<{ db: 'notes' }>>()
            return []
          },
        },
      },
      (args, context) => {
        expectTypeOf(args).toEqualTypeOf<{ n: number; s: string }>()
        expectTypeOf(context).toEqualTypeOf<KitContext<{ db: 'notes' }>>()
        return ''
      },
    )
    router.prompt('b', {}, (args) => {
      expectTypeOf(args).toEqualTypeOf<Record<string, never>>()
      return [{ role: 'user', content: { type: 'text', text: '' } }]
    })
    // @ts-expect-error a prompt cannot be a number
    router.prompt('c', {}, () => 5)
    expect(() =>
      // @ts-expect-error the argument does not exist
      router.prompt('d', { input: z.object({ a: z.string() }), complete: { b: () => [] } }, () => ''),
    ).to.throw("has no option 'b'")
  })

  it('a handler of a resource template has the types of its variables', () => {
    router.resourceTemplate(
      'a',
      {
        uriTemplate: 'notes://{owner}/{id}{?q,limit}',
        list: ({ context }) => {
          expectTypeOf(context).toEqualTypeOf<{ db: 'notes' }>()
          return []
        },
      },
      (uri, variables, context) => {
        expectTypeOf(uri).toEqualTypeOf<URL>()
        expectTypeOf(variables).toEqualTypeOf<{
          readonly owner: string
          readonly id: string
          readonly q?: string
          readonly limit?: string
        }>()
        expectTypeOf(context).toEqualTypeOf<KitContext<{ db: 'notes' }>>()
      },
    )
    expectTypeOf<TemplateVariables<'a://{+path}'>>().toEqualTypeOf<{ readonly path: string }>()
    expectTypeOf<TemplateVariables<'a://{/dirs*}'>>().toEqualTypeOf<{ readonly dirs: string[] }>()
    expectTypeOf<TemplateVariables<string>>().toEqualTypeOf<Readonly<Record<string, string | string[]>>>()
    expect(() =>
      // @ts-expect-error the variable does not exist
      router.resourceTemplate('b', { uriTemplate: 'a://{a}', complete: { b: () => [] } }, () => ''),
    ).to.throw("has no option 'b'")
  })

  it('a resource handler has the types of its URI and its context', () => {
    router.resource('a', { uri: 'notes://a' }, (uri, context) => {
      expectTypeOf(uri).toEqualTypeOf<URL>()
      expectTypeOf(context).toEqualTypeOf<KitContext<{ db: 'notes' }>>()
    })
    // @ts-expect-error a resource has a URI
    expect(() => router.resource('b', {}, () => '')).to.throw('absolute URI')
  })

  it('answers of the client have the type of their schema', () => {
    router.tool('a', { description: 'x', output: z.object({ a: z.string() }) }, (_args, context) => {
      expectTypeOf(context.accepted('x', z.object({ n: z.coerce.number() }))).toEqualTypeOf<
        { n: number } | undefined
      >()
      expectTypeOf(context.state).toEqualTypeOf<unknown>()
      return context.inputRequired({}, 1)
    })
  })

  it('context.auth.user has the type that the verifier returns', () => {
    expectTypeOf<UserOf<typeof verifyToken>>().toEqualTypeOf<Account>()
    const inferred = async ({ bearerToken }: { bearerToken: string | undefined }) =>
      bearerToken === undefined ? undefined : { valid: true, user: { id: 5 } }
    expectTypeOf<UserOf<typeof inferred>>().toEqualTypeOf<{ id: number }>()
    const typed = router.user<UserOf<typeof verifyToken>>()
    expectTypeOf(typed).toEqualTypeOf<KitMcpRouter<{ db: 'notes' }, Account>>()
    typed.tool('a', { description: 'x' }, (_args, { auth }) => {
      expectTypeOf(auth?.user).toEqualTypeOf<Account | undefined>()
      return ''
    })
    createMcpAdapter({ router: typed, oauth: { issuer, verifyToken } })
    KitMcpServer.create().router(typed).withOAuth({ issuer, verifyToken })
    // @ts-expect-error the verifier gives another user
    createMcpAdapter({ router: typed, oauth: { issuer, verifyToken: inferred } })
    // @ts-expect-error the verifier gives another user
    KitMcpServer.create().router(typed).withOAuth({ issuer, verifyToken: inferred })
    // Where the router does not say, any verifier will do.
    createMcpAdapter({ router, oauth: { issuer, verifyToken: inferred } })
  })

  it('hooks have a context of any type if the router does not declare it', () => {
    const untyped = KitMcpRouter.create().tool('a', { description: 'x' }, () => '')
    const onVerified = ({ context, user }: OnVerifiedInput<any, Account>): void => {
      context.context.user = user
    }
    createMcpAdapter({ router: untyped, oauth: { issuer, verifyToken, onVerified } })
    createMcpAdapter({
      router: untyped,
      oauth: {
        issuer,
        verifyToken: () => undefined,
        onVerified: ({ context }) => {
          expectTypeOf(context.context).toBeAny()
        },
      },
    })
    for (const builder of [KitMcpServer.create(), KitMcpServer.create().router(untyped)]) {
      builder.withOAuth({
        issuer,
        verifyToken: ({ context }) => {
          expectTypeOf(context.context).toBeAny()
          return undefined
        },
      })
    }
    createMcpAdapter({
      router,
      oauth: {
        issuer,
        verifyToken: ({ context }) => {
          expectTypeOf(context.context).toEqualTypeOf<{ db: 'notes' }>()
          return undefined
        },
      },
    })
  })

  it('Connect accepts the middleware as its own type', () => {
    const gate = mcpAuth({ issuer, verifyToken })
    expectTypeOf(gate).toExtend<NextHandleFunction>()
    expect(() => connect().use('/mcp', gate)).to.not.throw()
  })
})
