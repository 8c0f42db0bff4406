import type { types as NodeTypes } from 'node:util'
import { builtinModule } from './runtime.ts'
import { tryOrUndefined } from './try-or-undefined.ts'

type BuiltInKinds = typeof NodeTypes
type Kind = readonly [name: string, is: (value: unknown) => boolean]

/** Returns a function that recognizes the objects that a method or a getter of their prototype accepts. */
function kind(name: keyof BuiltInKinds, prototype: object, key: string | symbol): Kind {
  const { value, get = value } = Object.getOwnPropertyDescriptor(prototype, key) ?? {}
  const read = (one: unknown) => tryOrUndefined(() => Reflect.apply(get, one, []))
  return [name, (one) => typeof one === 'object' && read(one) !== undefined]
}

/** The functions of `node:util` that this package uses, for runtimes without it. */
function kindsWithoutNode(): BuiltInKinds {
  const boxes = [
    kind('isStringObject', String.prototype, 'valueOf'),
    kind('isNumberObject', Number.prototype, 'valueOf'),
    kind('isBooleanObject', Boolean.prototype, 'valueOf'),
    kind('isBigIntObject', BigInt.prototype, 'valueOf'),
    kind('isSymbolObject', Symbol.prototype, 'valueOf'),
  ]
  const tagged = (name: keyof BuiltInKinds, tag: string): Kind => [
    name,
    (value) => Object.prototype.toString.call(value) === `[object ${tag}]`,
  ]
  return Object.fromEntries([
    ...boxes,
    ['isBoxedPrimitive', (value: unknown) => boxes.some(([, is]) => is(value))],
    kind('isDate', Date.prototype, 'getTime'),
    kind('isMap', Map.prototype, 'size'),
    kind('isSet', Set.prototype, 'size'),
    kind('isTypedArray', Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag),
    tagged('isRegExp', 'RegExp'),
    tagged('isNativeError', 'Error'),
    ['isPromise', (value: unknown) => value instanceof Promise],
  ]) as unknown as BuiltInKinds
}

/** The functions that recognize built-in objects by their internal slots, also objects of other realms. */
export const types: BuiltInKinds = builtinModule('node:util')?.types ?? kindsWithoutNode()
