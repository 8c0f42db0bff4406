import { Resolver } from 'node:dns/promises'
import type { LookupFunction } from 'node:net'

/** The time for the first question to a name server, in milliseconds, which c-ares doubles for the second one. */
const LIMITS = { timeout: 1_500, tries: 2 }

/**
 * Creates a lookup for hosts that strangers name. It asks the name servers of the system without a thread: `dns.lookup` occupies one
 * of the four threads of the process until it ends, so that slow name servers could stop all file access and cryptography. Names
 * of `/etc/hosts` are not found.
 * @param servers the name servers. Defaults to those of the system. Tests replace them.
 */
export function createResolverLookup(servers?: readonly string[]): LookupFunction {
  let resolver: Resolver | undefined
  return (hostname, _options, callback) => {
    if (resolver === undefined) {
      resolver = new Resolver(LIMITS)
      if (servers !== undefined) resolver.setServers(servers)
    }
    void Promise.allSettled([resolver.resolve4(hostname), resolver.resolve6(hostname)]).then(([v4, v6]) => {
      const found = [
        ...addressesOf(v4).map((address) => ({ address, family: 4 })),
        ...addressesOf(v6).map((address) => ({ address, family: 6 })),
      ]
      if (found.length > 0) callback(null, found)
      else callback(v4.status === 'rejected' ? v4.reason : new Error('The host does not have an address'), '')
    })
  }
}

function addressesOf(result: PromiseSettledResult<string[]>): readonly string[] {
  return result.status === 'fulfilled' ? result.value : []
}
