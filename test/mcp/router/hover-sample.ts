// What an editor shows: after `//?` stands the text for the first word of it, where it last stands in the code above.
// Read by hover.test.ts, and compiled with everything else; never run.
import { type } from 'arktype'
import * as v from 'valibot'
import { z } from 'zod'
import {
  createMcpAdapter,
  jwtVerifier,
  KitMcpRouter,
  KitMcpServer,
  type ServerFactory,
  type UserOf,
} from '../../../src/index.ts'

interface App {
  readonly notes: ReadonlyMap<string, string>
}

const verifyToken = jwtVerifier({
  //? verifyToken: VerifyToken<unknown, { id: string; roles: string[]; }>
  issuer: 'https://auth.example.com',
  audience: 'https://mcp.example.com/mcp',
  mapUser: ({ sub }) => ({ id: String(sub), roles: ['reader'] }),
  //? sub: string | undefined
})

const router = KitMcpRouter.create()
  .context((): App => ({ notes: new Map() }))
  .user<UserOf<typeof verifyToken>>()
  .tool(
    'add',
    {
      description: 'Adds',
      input: z.object({ a: z.number(), b: z.number() }),
      output: z.object({ sum: z.number() }),
    },
    (args, context) => {
      //? args: { a: number; b: number; }
      //? context: KitContext<App, { id: string; roles: string[]; }>
      const app = context.context
      //? app: App
      const auth = context.auth
      //? auth: AuthInfo<{ id: string; roles: string[]; }> | undefined
      const user = context.auth?.user
      //? user: { id: string; roles: string[]; } | undefined
      const state = context.state
      //? state: unknown
      const answered = context.accepted('sure', z.object({ sure: z.boolean() }))
      //? answered: { sure: boolean; } | undefined
      if (answered === undefined) return context.inputRequired({}, { app, auth, user, state })
      return { sum: args.a + args.b }
    },
  )
  .tool(
    'defaults',
    {
      description: 'Has defaults, choices and dates',
      input: z.object({
        order: z.enum(['asc', 'desc']).default('asc'),
        since: z.coerce.date().optional(),
        tags: z.array(z.object({ name: z.string() })),
      }),
    },
    (parsed) => JSON.stringify(parsed),
    //? parsed: { order: "asc" | "desc"; since?: Date | undefined; tags: { name: string; }[]; }
  )
  .tool('nothing', { description: 'Takes nothing' }, (none) => JSON.stringify(none))
  //? none: Record<string, never>
  .tool(
    'arktype',
    { description: 'Is of arktype', input: type({ text: 'string', 'limit?': 'number' }) },
    (ark) => ark.text,
    //? ark: { text: string; limit?: number; }
  )
  .prompt(
    'summarize',
    {
      input: z.object({ note: z.string(), tone: z.string().optional() }),
      complete: {
        note: (value, completion) => {
          //? value: string
          //? completion: CompletionInput<App, { id: string; roles: string[]; }>
          const others = completion.arguments
          //? others: Readonly<Record<string, string>>
          return [value, ...Object.keys(others)]
        },
      },
    },
    (asked, inPrompt) => `${asked.note} ${inPrompt.auth?.clientId}`,
    //? asked: { note: string; tone?: string | undefined; }
    //? inPrompt: KitContext<App, { id: string; roles: string[]; }>
  )
  .resource('index', { uri: 'notes://index' }, (address, inResource) => [
    address.href,
    inResource.context.notes.size,
  ])
  //? address: URL
  //? inResource: KitContext<App, { id: string; roles: string[]; }>
  .resourceTemplate(
    'note',
    {
      uriTemplate: 'notes://{owner}/{id}{?page}',
      list: (listing) =>
        [...listing.context.notes.keys()].map((name) => ({ name, uri: `notes://all/${name}` })),
      //? listing: KitContext<App, { id: string; roles: string[]; }>
    },
    (_uri, variables, inTemplate) => `${variables.owner} ${inTemplate.context.notes.get(variables.id)}`,
    //? variables: { readonly id: string; readonly owner: string; readonly page?: string; }
    //? inTemplate: KitContext<App, { id: string; roles: string[]; }>
  )
  .merge('more', KitMcpRouter.create())

export const whole = router
//? whole: KitMcpRouter<App, { id: string; roles: string[]; }, object & PrefixedEvents<"more", object>>

export const adapter = createMcpAdapter({
  //? adapter: McpAdapter<object & PrefixedEvents<"more", object>>
  router,
  oauth: {
    issuer: 'https://auth.example.com',
    verifyToken,
    onVerified: ({ context, user, scopes }) => {
      //? context: VerifyContext<App>
      //? user: { id: string; roles: string[]; } | undefined
      //? scopes: readonly string[]
      context.context.notes.get(`${user?.id} ${scopes}`)
    },
  },
})

export const built = KitMcpServer.create()
  //? built: McpAdapter<object & PrefixedEvents<"more", object>>
  .router(router)
  .withOAuth({
    issuer: 'https://auth.example.com',
    verifyToken: (given) =>
      given.context.context.notes.size > 0 ? { valid: true, user: undefined } : undefined,
    //? given: VerifyTokenInput<App>
  })
  .build()

export const factory: ServerFactory = async (made) => {
  //? made: ServerFactoryContext
  const who = made.auth
  //? who: AuthInfo<any> | undefined
  throw new Error(String(who))
}

export const valibot = KitMcpRouter.create().tool(
  //? valibot: KitMcpRouter<unknown, any, object>
  'valibot',
  { description: 'Is of valibot', input: { ...v.object({ text: v.string() }) } },
  (piped) => piped.text,
  //? piped: { text: string; }
)
