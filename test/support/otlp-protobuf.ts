/** A request in OTLP's JSON encoding. The protobuf encoding is decoded into the same form. */
export interface LogsRequest {
  resourceLogs?: ResourceLogs[]
}

interface ResourceLogs {
  resource?: { attributes?: KeyValue[] }
  scopeLogs?: { scope?: { name?: string; version?: string }; logRecords?: LogRecord[] }[]
}

interface LogRecord {
  timeUnixNano?: string
  observedTimeUnixNano?: string
  severityNumber?: number
  severityText?: string
  body?: AnyValue
  attributes?: KeyValue[]
  droppedAttributesCount?: number
  flags?: number
  traceId?: string
  spanId?: string
  eventName?: string
}

export interface KeyValue {
  key: string
  value?: AnyValue
}

export interface AnyValue {
  stringValue?: string
  boolValue?: boolean
  intValue?: string | number
  doubleValue?: number
  arrayValue?: { values?: AnyValue[] }
  kvlistValue?: { values?: KeyValue[] }
  bytesValue?: string
}

type Scalar = 'string' | 'bool' | 'int64' | 'enum' | 'double' | 'fixed32' | 'fixed64' | 'hex' | 'base64'

/** Field numbers, as in the .proto files of opentelemetry-proto 1.x. `[]` marks a repeated field. */
const MESSAGES: Readonly<Record<string, Readonly<Record<number, readonly [name: string, type: string]>>>> = {
  LogsRequest: { 1: ['resourceLogs[]', 'ResourceLogs'] },
  ResourceLogs: { 1: ['resource', 'Resource'], 2: ['scopeLogs[]', 'ScopeLogs'], 3: ['schemaUrl', 'string'] },
  Resource: { 1: ['attributes[]', 'KeyValue'], 2: ['droppedAttributesCount', 'enum'] },
  ScopeLogs: { 1: ['scope', 'Scope'], 2: ['logRecords[]', 'LogRecord'], 3: ['schemaUrl', 'string'] },
  Scope: {
    1: ['name', 'string'],
    2: ['version', 'string'],
    3: ['attributes[]', 'KeyValue'],
    4: ['dropped', 'enum'],
  },
  LogRecord: {
    1: ['timeUnixNano', 'fixed64'],
    2: ['severityNumber', 'enum'],
    3: ['severityText', 'string'],
    5: ['body', 'AnyValue'],
    6: ['attributes[]', 'KeyValue'],
    7: ['droppedAttributesCount', 'enum'],
    8: ['flags', 'fixed32'],
    9: ['traceId', 'hex'],
    10: ['spanId', 'hex'],
    11: ['observedTimeUnixNano', 'fixed64'],
    12: ['eventName', 'string'],
  },
  KeyValue: { 1: ['key', 'string'], 2: ['value', 'AnyValue'] },
  AnyValue: {
    1: ['stringValue', 'string'],
    2: ['boolValue', 'bool'],
    3: ['intValue', 'int64'],
    4: ['doubleValue', 'double'],
    5: ['arrayValue', 'ArrayValue'],
    6: ['kvlistValue', 'KeyValueList'],
    7: ['bytesValue', 'base64'],
  },
  ArrayValue: { 1: ['values[]', 'AnyValue'] },
  KeyValueList: { 1: ['values[]', 'KeyValue'] },
}

const WIRE_TYPES: Readonly<Record<Scalar, number>> = {
  bool: 0,
  int64: 0,
  enum: 0,
  fixed64: 1,
  double: 1,
  string: 2,
  hex: 2,
  base64: 2,
  fixed32: 5,
}

/** @throws if the bytes are not such a message, or if they contain a field that these messages do not have. */
export function decodeLogsRequest(bytes: Uint8Array): LogsRequest {
  return decodeMessage(Buffer.from(bytes), 'LogsRequest')
}

/** Encodes an `ExportLogsServiceResponse`: empty, or a partial success. */
export function encodeLogsResponse(rejected: number): Buffer {
  if (rejected === 0) return Buffer.alloc(0)
  const count: number[] = []
  for (let rest = rejected; ; rest >>= 7) {
    count.push(rest > 127 ? (rest & 127) | 128 : rest)
    if (rest <= 127) break
  }
  const message = Buffer.from('too old')
  // The message comes first, to detect readers that take the first field for the number.
  const partialSuccess = [2 * 8 + 2, message.length, ...message, 8, ...count]
  return Buffer.from([8 + 2, partialSuccess.length, ...partialSuccess])
}

function decodeMessage(bytes: Buffer, message: string): Record<string, unknown> {
  const decoded: Record<string, unknown> = {}
  let at = 0
  while (at < bytes.length) {
    const tag = Number(varint())
    const [name, type] = MESSAGES[message]?.[tag >> 3] ?? fail(`${message} has no field ${tag >> 3}`)
    if ((tag & 7) !== (WIRE_TYPES[type as Scalar] ?? 2)) fail(`${message}.${name} has wire type ${tag & 7}`)
    const value = read(type)
    if (name.endsWith('[]')) {
      const list = name.slice(0, -2)
      const values = (decoded[list] as unknown[] | undefined) ?? []
      decoded[list] = values
      values.push(value)
    } else {
      decoded[name] = value
    }
  }
  return decoded

  function read(type: string): unknown {
    switch (type) {
      case 'bool':
        return varint() !== 0n
      case 'int64':
        return String(BigInt.asIntN(64, varint()))
      case 'enum':
        return Number(varint())
      case 'fixed32':
        return take(4).readUInt32LE()
      case 'fixed64':
        return String(take(8).readBigUInt64LE())
      case 'double':
        return take(8).readDoubleLE()
    }
    const field = take(Number(varint()))
    switch (type) {
      case 'string':
        return new TextDecoder('utf-8', { fatal: true }).decode(field)
      case 'hex':
      case 'base64':
        return field.toString(type)
      default:
        return decodeMessage(field, type)
    }
  }

  function take(length: number): Buffer {
    if (at + length > bytes.length) fail(`${message} ends too early`)
    at += length
    return bytes.subarray(at - length, at)
  }

  function varint(): bigint {
    let value = 0n
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = take(1).readUInt8()
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return BigInt.asUintN(64, value)
    }
    return fail(`${message} has a number of more than ten bytes`)
  }
}

function fail(problem: string): never {
  throw new Error(problem)
}
