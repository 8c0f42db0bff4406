/** Returns an attribute as text. `String` throws for some objects, such as `{ "toString": null }`. */
export function attributeText(value: unknown): string {
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value)
}
