import type { KnownClient } from './known-client.ts'
import { LIFETIMES } from './oidc-adapter.ts'
import type { Records } from './records.ts'
import { isLocalRedirect } from './redirect-uris.ts'
import type { EarlierRevocations } from './revocations.ts'

/** The maximum number of consents of a user to a client. */
const MAX_CONSENTS = 20

/** The scopes and the resource to which a user consents. */
export interface Consent {
  readonly sub: string
  readonly client: KnownClient
  readonly resource: string
  readonly scopes: readonly string[]
  /** The revocations before the consent. A later one ends it. */
  readonly earlier: EarlierRevocations
}

/**
 * The consents that are not asked for again: only those to clients that are registered in advance, and only if no other program
 * can receive the code. Each is for one redirect URI, resource, and set of scopes.
 */
export class RememberedConsents {
  readonly #records: Records

  constructor(records: Records) {
    this.#records = records
  }

  async has(consent: Consent): Promise<boolean> {
    return mayRemember(consent) && (await this.#of(consent)).includes(textOf(consent))
  }

  async add(consent: Consent): Promise<void> {
    if (!mayRemember(consent)) return
    const text = textOf(consent)
    const others = (await this.#of(consent)).filter((other) => other !== text)
    const consents = [...others, text].slice(-MAX_CONSENTS)
    await this.#records.set('Consent', idOf(consent.sub, consent.client.id), consents, LIFETIMES.consent)
  }

  /** Withdraws all consents of a user to a client. */
  async withdraw(sub: string, clientId: string): Promise<void> {
    await this.#records.delete('Consent', idOf(sub, clientId))
  }

  async #of(consent: Consent): Promise<readonly string[]> {
    const stored = await this.#records.get('Consent', idOf(consent.sub, consent.client.id))
    return Array.isArray(stored) ? stored : []
  }
}

function mayRemember({ client: { kind, redirectUri } }: Consent): boolean {
  return kind === 'static' && !isLocalRedirect(redirectUri)
}

function idOf(sub: string, clientId: string): string {
  return JSON.stringify([sub, clientId])
}

function textOf({ client, resource, scopes, earlier }: Consent): string {
  const revocations = earlier.filter((id) => id !== '')
  return JSON.stringify([client.redirectUri, resource, [...scopes].sort(), ...revocations])
}
