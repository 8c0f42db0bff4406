import { readFile } from 'node:fs/promises'
import { expect } from 'chai'
import { parseAllDocuments } from 'yaml'
import { z } from 'zod'

const MANIFEST = new URL('../../../examples/kubernetes/server.yaml', import.meta.url)

const name = z.string().regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/)
const labels = z.record(name, name)
const metadata = z.strictObject({ name, labels: labels.optional() })
const whole = z.int().min(0)
const portName = z.string().regex(/^(?=.*[a-z])[a-z0-9-]{1,15}$/)
const quantity = z.string().regex(/^\d+(m|Mi|Gi)?$/)
const resources = z.strictObject({ cpu: quantity.optional(), memory: quantity.optional() })
const probe = z.strictObject({
  httpGet: z.strictObject({ path: z.string().startsWith('/'), port: portName }),
  periodSeconds: whole.min(1),
  timeoutSeconds: whole.min(1).optional(),
  failureThreshold: whole.min(1),
})

/** The parts of the Kubernetes API that the manifest uses, as its reference for apps/v1, v1, and policy/v1 describes them. */
const deployment = z.strictObject({
  apiVersion: z.literal('apps/v1'),
  kind: z.literal('Deployment'),
  metadata,
  spec: z.strictObject({
    replicas: whole.min(2),
    selector: z.strictObject({ matchLabels: labels }),
    strategy: z.strictObject({
      type: z.literal('RollingUpdate'),
      rollingUpdate: z.strictObject({ maxUnavailable: whole, maxSurge: whole }),
    }),
    template: z.strictObject({
      metadata: z.strictObject({ labels }),
      spec: z.strictObject({
        terminationGracePeriodSeconds: whole,
        automountServiceAccountToken: z.literal(false),
        securityContext: z.strictObject({
          runAsNonRoot: z.literal(true),
          runAsUser: whole.min(1),
          seccompProfile: z.strictObject({ type: z.enum(['RuntimeDefault', 'Localhost']) }),
        }),
        containers: z.tuple([
          z.strictObject({
            name,
            image: z.string().regex(/^[\w./-]+:\d+\.\d+\.\d+$/),
            ports: z.array(z.strictObject({ name: portName, containerPort: whole.max(65_535) })),
            // Values of other types than strings are rejected by the API.
            env: z.array(z.strictObject({ name: z.string().regex(/^[A-Z_]+$/), value: z.string() })),
            envFrom: z.array(z.strictObject({ secretRef: z.strictObject({ name }) })),
            volumeMounts: z.array(
              z.strictObject({ name, mountPath: z.string().startsWith('/'), readOnly: z.literal(true) }),
            ),
            startupProbe: probe,
            livenessProbe: probe,
            readinessProbe: probe,
            lifecycle: z.strictObject({
              preStop: z.strictObject({ sleep: z.strictObject({ seconds: whole.min(1) }) }),
            }),
            resources: z.strictObject({ requests: resources, limits: resources }),
            securityContext: z.strictObject({
              allowPrivilegeEscalation: z.literal(false),
              readOnlyRootFilesystem: z.literal(true),
              capabilities: z.strictObject({ drop: z.tuple([z.literal('ALL')]) }),
            }),
          }),
        ]),
        volumes: z.array(
          z.strictObject({
            name,
            secret: z.strictObject({
              secretName: name,
              items: z.array(z.strictObject({ key: z.string(), path: z.string() })),
            }),
          }),
        ),
      }),
    }),
  }),
})
const service = z.strictObject({
  apiVersion: z.literal('v1'),
  kind: z.literal('Service'),
  metadata,
  spec: z.strictObject({
    selector: labels,
    ports: z.array(z.strictObject({ name: portName, port: whole.max(65_535), targetPort: portName })),
  }),
})
const budget = z.strictObject({
  apiVersion: z.literal('policy/v1'),
  kind: z.literal('PodDisruptionBudget'),
  metadata,
  spec: z.strictObject({ minAvailable: whole, selector: z.strictObject({ matchLabels: labels }) }),
})

/** The default `timeoutMs` of `gracefulShutdown()`, in seconds. */
const SHUTDOWN_SECONDS = 25

describe('examples/kubernetes', () => {
  const read = async () => {
    const documents = parseAllDocuments(await readFile(MANIFEST, 'utf8'))
    return z.tuple([deployment, service, budget]).parse(documents.map((document) => document.toJS()))
  }

  it('the manifests have the members and types of the Kubernetes API', async () => {
    expect(await read()).to.have.length(3)
  })

  it('the service and the budget select the pods, and ports and volumes have the names that are used', async () => {
    const [{ spec }, { spec: exposed }, { spec: disruption }] = await read()
    const { labels: own } = spec.template.metadata
    for (const selected of [spec.selector.matchLabels, exposed.selector, disruption.selector.matchLabels])
      expect(own).to.include(selected)
    const [container] = spec.template.spec.containers
    const ports = container.ports.map((port) => port.name)
    const { startupProbe, livenessProbe, readinessProbe } = container
    for (const { httpGet } of [startupProbe, livenessProbe, readinessProbe])
      expect(ports).to.include(httpGet.port)
    expect(ports).to.include.members(exposed.ports.map(({ targetPort }) => targetPort))
    expect(spec.template.spec.volumes.map((volume) => volume.name)).to.include.members(
      container.volumeMounts.map((mount) => mount.name),
    )
    const { PORT, AUTHORIZATION_KEYS_FILE } = Object.fromEntries(
      container.env.map((one) => [one.name, one.value]),
    )
    expect(container.ports[0]?.containerPort).to.equal(Number(PORT))
    expect(AUTHORIZATION_KEYS_FILE).to.equal(
      `${container.volumeMounts[0]?.mountPath}/${spec.template.spec.volumes[0]?.secret.items[0]?.path}`,
    )
  })

  it('the pod has time for the pause, the shutdown of the server, and a reserve', async () => {
    const [{ spec }] = await read()
    const [{ lifecycle }] = spec.template.spec.containers
    expect(spec.template.spec.terminationGracePeriodSeconds).to.be.at.least(
      lifecycle.preStop.sleep.seconds + SHUTDOWN_SECONDS + 5,
    )
  })
})
