/** Copies an object without the members that are `undefined`. */
export function definedMembers<Value extends object>(value: Value): Value {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as Value
}
