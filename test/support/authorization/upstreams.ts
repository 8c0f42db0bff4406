import { github } from '../../../src/authorization/index.ts'
import type { TestFacadeSettings } from './facade.ts'
import { type Github, startGithub } from './github.ts'

/** A provider behind a facade, at which MCP clients could not sign in. */
export interface TestUpstream {
  readonly settings: TestFacadeSettings
  close(): Promise<void>
}

export interface UpstreamKind {
  readonly name: string
  /** The `sub` of the user's tokens. */
  readonly sub: string
  create(): TestUpstream
}

/** The providers. Both refuse registration and the parameter `resource`. */
export const UPSTREAMS: readonly UpstreamKind[] = [
  {
    name: 'an OpenID provider',
    sub: 'oidc|ada',
    // `startFacade` starts and closes it.
    create: () => ({ settings: {}, close: async () => undefined }),
  },
  {
    name: 'GitHub',
    sub: 'github|583231',
    create() {
      let hub: Github | undefined
      return {
        settings: {
          async upstream(callback) {
            hub = await startGithub(callback)
            const { baseUrl, clientId, clientSecret } = hub
            return github({ baseUrl, clientId, clientSecret })
          },
        },
        close: async () => await hub?.close(),
      }
    },
  },
]
