import { KitMcpConfigError } from '../../../src/base/options/config-error.ts'

/** The configuration error that `act` throws; anything else it throws goes on. */
export function configError(act: () => unknown): KitMcpConfigError {
  try {
    act()
  } catch (error) {
    if (error instanceof KitMcpConfigError) return error
    throw error
  }
  throw new Error('nothing was thrown')
}
