import { Ajv2020 } from 'ajv/dist/2020.js'

const name = { type: 'string', minLength: 1 }
const properties = { type: 'object' }
const entity = {
  type: 'object',
  required: ['type', 'id'],
  properties: { type: name, id: name, properties },
  additionalProperties: false,
}
const parts = {
  subject: entity,
  action: {
    type: 'object',
    required: ['name'],
    properties: { name, properties },
    additionalProperties: false,
  },
  resource: entity,
  context: { type: 'object' },
}

/** The body of a request to `/access/v1/evaluation` (Authorization API 1.0), without members of extensions. */
const EVALUATION = {
  type: 'object',
  required: ['subject', 'action', 'resource'],
  properties: parts,
  additionalProperties: false,
}

/** The body of a request to `/access/v1/evaluations`. Its evaluations are checked after the defaults have been applied. */
const EVALUATIONS = {
  type: 'object',
  required: ['evaluations'],
  properties: {
    ...parts,
    evaluations: { type: 'array', minItems: 1, items: { type: 'object' } },
  },
  additionalProperties: false,
}

const ajv = new Ajv2020({ allErrors: true })
const isEvaluation = ajv.compile(EVALUATION)
const isEvaluations = ajv.compile(EVALUATIONS)

/** An Access Evaluation request. */
export interface Evaluation {
  readonly subject: { readonly type: string; readonly id: string; readonly properties?: any }
  readonly action: { readonly name: string; readonly properties?: any }
  readonly resource: { readonly type: string; readonly id: string; readonly properties?: any }
  readonly context?: any
}

/** Returns the evaluation of a request body. @throws if the body does not match the schema. */
export function evaluationIn(body: any): Evaluation {
  if (!isEvaluation(body)) throw new Error(`invalid evaluation: ${ajv.errorsText(isEvaluation.errors)}`)
  return body as unknown as Evaluation
}

/** Returns the evaluations of a request body with its defaults. @throws if one does not match the schema. */
export function evaluationsIn(body: any): Evaluation[] {
  if (!isEvaluations(body)) throw new Error(`invalid evaluations: ${ajv.errorsText(isEvaluations.errors)}`)
  const { evaluations, ...defaults } = body as any
  return evaluations.map((evaluation: object) => evaluationIn({ ...defaults, ...evaluation }))
}
