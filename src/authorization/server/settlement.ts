import { AsyncLocalStorage } from 'node:async_hooks'
import type * as Oidc from 'oidc-provider'

type Write = () => Promise<unknown>

/** The writes to the store that belong to an answer. */
interface Answer {
  readonly published: Write[]
  readonly used: Write[]
}

const answers = new AsyncLocalStorage<Answer>()

/**
 * Makes an answer and settles it: stores what it publishes, such as a refresh token, and then what it uses up, such as a code.
 * A request that fails uses up nothing, so that it can be repeated. It must not be answered if this function throws.
 * @param isComplete returns `false` if the answer is an error after which the request can be repeated.
 */
export async function settle(
  make: () => Promise<unknown>,
  isComplete: () => boolean = () => true,
): Promise<void> {
  const answer: Answer = { published: [], used: [] }
  await answers.run(answer, make)
  if (!isComplete()) return
  for (const write of [...answer.published, ...answer.used]) await write()
}

/**
 * Writes to the store when the answer is settled, or at once outside of an answer.
 * @param list `published` for what the answer publishes, and `used` for what it uses up
 */
export async function settled(list: keyof Answer, write: Write): Promise<void> {
  const answer = answers.getStore()
  if (answer === undefined) await write()
  else answer[list].push(write)
}

type Names = string | readonly string[] | ReadonlySet<string>

/** The steps around the handler of a grant. */
export interface GrantSteps {
  /** Refuses the request, or corrects its parameters. */
  begin(ctx: Oidc.KoaContextWithOIDC): Promise<void>
  /** Completes the response after it was settled. */
  finish(ctx: Oidc.KoaContextWithOIDC): Promise<void>
}

/** Makes grants use up codes only together with their answer, and takes the steps before and after it. */
export function settlingProvider(Provider: typeof Oidc.Provider, steps: GrantSteps): typeof Oidc.Provider {
  return class extends Provider {
    // The constructor calls this method for the built-in grants, too.
    override registerGrantType<Params extends object>(
      name: string,
      handler: (ctx: Oidc.TokenEndpointGrantContext<Params>) => Oidc.CanBePromise<void>,
      ...rest: [params?: Names, duplicates?: Names]
    ): void {
      const handle = async (ctx: Oidc.TokenEndpointGrantContext<Params>): Promise<void> => {
        await steps.begin(ctx)
        await settle(async () => await handler(ctx))
        await steps.finish(ctx)
      }
      super.registerGrantType(name, handle, ...rest)
    }
  }
}
