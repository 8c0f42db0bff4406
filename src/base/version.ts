/** Version of this package, equal to `version` in its package.json. */
export const VERSION = '0.4.0'
