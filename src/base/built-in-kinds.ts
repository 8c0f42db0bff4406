import type { types as NodeTypes } from 'node:util'
import { builtinModule } from './runtime.ts'
import { tryOrUndefined } from './try-or-undefined.ts'

/** The functions that recognize built-in objects by their internal slots, also objects of other realms. */
type BuiltInKinds = Pick<
  typeof NodeTypes,
  | 'isBigIntObject'
  | 'isBooleanObject'
  | 'isBoxedPrimitive'
  | 'isDate'
  | 'isMap'
  | 'isNativeError'
  | 'isNumberObject'
  | 'isPromise'
  | 'isRegExp'
  | 'isSet'
  | 'isStringObject'
  | 'isTypedArray'
>

/** A method or a getter that throws unless `this` has the internal slots of its class. */
type SlotReader = (this: never) => unknown

/** Returns a function that recognizes the objects that a method of their prototype accepts. */
function acceptedBy(read: SlotReader | undefined): (value: unknown) => boolean {
  return (value) => {
    if (typeof value !== 'object' || value === null || read === undefined) return false
    return tryOrUndefined(() => Reflect.apply(read, value, [])) !== undefined
  }
}

function getterOf(prototype: object, key: string | symbol): SlotReader | undefined {
  return Object.getOwnPropertyDescriptor(prototype, key)?.get as SlotReader | undefined
}

/** `isPromise` and `isNativeError` recognize objects by their prototype or their string form, because they have no getters. */
export function kindsWithoutNode(): BuiltInKinds {
  const isStringObject = acceptedBy(String.prototype.valueOf)
  const isNumberObject = acceptedBy(Number.prototype.valueOf)
  const isBooleanObject = acceptedBy(Boolean.prototype.valueOf)
  const isBigIntObject = acceptedBy(BigInt.prototype.valueOf)
  const isSymbolObject = acceptedBy(Symbol.prototype.valueOf)
  const boxes = [isStringObject, isNumberObject, isBooleanObject, isBigIntObject, isSymbolObject]
  const { isError } = Error as { isError?: (value: unknown) => boolean }
  return {
    isStringObject,
    isNumberObject,
    isBooleanObject,
    isBigIntObject,
    isBoxedPrimitive: (value) => boxes.some((isBox) => isBox(value)),
    isDate: acceptedBy(Date.prototype.getTime),
    isMap: acceptedBy(getterOf(Map.prototype, 'size')),
    isSet: acceptedBy(getterOf(Set.prototype, 'size')),
    isTypedArray: acceptedBy(getterOf(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag)),
    isRegExp: (value) => Object.prototype.toString.call(value) === '[object RegExp]',
    isPromise: (value) => value instanceof Promise,
    isNativeError: isError ?? ((value) => Object.prototype.toString.call(value) === '[object Error]'),
  } as BuiltInKinds
}

/** Recognizes built-in objects with `node:util` if the runtime has it. */
export const types: BuiltInKinds = builtinModule('node:util')?.types ?? kindsWithoutNode()
