import type { types as NodeTypes } from 'node:util'
import { builtinModule } from './runtime.ts'
import { tryOrUndefined } from './try-or-undefined.ts'

type BuiltInKinds = typeof NodeTypes

/** Returns a function that recognizes objects by the tag that their class gives them. */
function tagged(...tags: readonly string[]): (value: unknown) => boolean {
  const tagOf = (value: unknown) => tryOrUndefined(() => Object.prototype.toString.call(value).slice(8, -1))
  return (value) => typeof value === 'object' && tags.includes(tagOf(value) ?? '')
}

/** The functions of `node:util` that this package uses, for runtimes without it. */
function kindsWithoutNode(): BuiltInKinds {
  const kinds = {
    isBoxedPrimitive: tagged('String', 'Number', 'Boolean', 'BigInt', 'Symbol'),
    isStringObject: tagged('String'),
    isNumberObject: tagged('Number'),
    isBooleanObject: tagged('Boolean'),
    isBigIntObject: tagged('BigInt'),
    isDate: tagged('Date'),
    isMap: tagged('Map'),
    isSet: tagged('Set'),
    isTypedArray: (value: unknown) => ArrayBuffer.isView(value) && !(value instanceof DataView),
    isRegExp: tagged('RegExp'),
    isNativeError: tagged('Error'),
    isPromise: (value: unknown) => value instanceof Promise,
  }
  return kinds as unknown as BuiltInKinds
}

/** The functions that recognize built-in objects, also of other realms: on Node.js by internal slots, elsewhere by tag. */
export const types: BuiltInKinds = builtinModule('node:util')?.types ?? kindsWithoutNode()
