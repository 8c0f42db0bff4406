/** Returns the scopes in a parameter. */
export function scopesOf(value: unknown): string[] {
  return typeof value === 'string' ? [...new Set(value.split(' ').filter((scope) => scope !== ''))] : []
}
