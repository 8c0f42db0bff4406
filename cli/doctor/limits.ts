import { counted } from '../../src/options/counted.ts'
import type { CheckFunctions } from './check.ts'
import { fail, ok, warn } from './finding.ts'
import { quote } from './quote.ts'

const ANNOUNCEMENTS = ['ratelimit', 'ratelimit-policy', 'ratelimit-limit', 'x-ratelimit-limit']

export const LIMITS: CheckFunctions = {
  async 'limit.rate'({ exchanges }) {
    const limited = exchanges.find(({ status }) => status === 429)
    const announced = ANNOUNCEMENTS.flatMap((name) => {
      const value = exchanges.find((response) => response.header(name) !== undefined)?.header(name)
      return value === undefined ? [] : [`${name}: ${quote(value)}`]
    })
    if (limited === undefined)
      return ok([`no rate limit in ${counted(exchanges.length, 'request')}`, ...announced].join('; '))
    const seen = `429 after ${counted(exchanges.indexOf(limited), 'request')}`
    const wait = limited.header('retry-after')
    if (wait === undefined)
      return warn(`${seen} without Retry-After`, 'send Retry-After with every 429 (RFC 6585 §4)')
    return /^\d+$/.test(wait.trim()) || !Number.isNaN(Date.parse(wait))
      ? ok(`${seen}, Retry-After: ${quote(wait)}`)
      : fail(
          `${seen}, Retry-After: ${quote(wait)}`,
          'send Retry-After as a number of seconds or an HTTP date (RFC 9110 §10.2.3)',
        )
  },
}
