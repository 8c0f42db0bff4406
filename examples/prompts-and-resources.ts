import express, { type Express } from 'express'
import {
  createMcpAdapter,
  KitMcpRouter,
  KitToolError,
  type McpAdapter,
  mcpAuth,
  mcpCors,
  mcpHandler,
  type OAuthOptions,
  protectedResourceRouter,
} from 'mcp-gatekit'
import { z } from 'zod'

const name = z.string().regex(/^[a-z-]{1,40}$/)

/** Creates an Express application that serves recipes as resources and prompts, and writes them with a tool. */
export function createRecipesServer(oauth: OAuthOptions): Express {
  const recipes = new Map([
    ['bread', 'Flour, water, salt, time.'],
    ['broth', 'Bones, water, more time.'],
  ])
  const startingWith = (value: string) => [...recipes.keys()].filter((one) => one.startsWith(value))

  const router = KitMcpRouter.create()
    // Users select prompts and fill in the arguments. `complete` suggests values while they type.
    .prompt(
      'cook',
      {
        description: 'Plans a meal around a recipe',
        input: z.object({ recipe: name, people: z.coerce.number().int().positive().default(2) }),
        complete: { recipe: startingWith },
      },
      ({ recipe, people }) => {
        const text = recipes.get(recipe)
        if (text === undefined) throw new KitToolError(`The recipe ${recipe} does not exist`)
        return `Plan a meal for ${people} around this recipe:\n\n${text}`
      },
    )
    // One fixed URI. Values other than strings and bytes are sent as JSON.
    .resource('index', { uri: 'recipes://index', title: 'All recipes' }, () => [...recipes.keys()])
    // One URI for each recipe. `undefined` means that the recipe does not exist.
    .resourceTemplate(
      'recipe',
      {
        uriTemplate: 'recipes://all/{recipe}',
        mimeType: 'text/markdown',
        list: () => [...recipes.keys()].map((recipe) => ({ name: recipe, uri: `recipes://all/${recipe}` })),
        complete: { recipe: startingWith },
      },
      (_uri, { recipe }) => recipes.get(recipe),
    )
    // Writing requires another scope. Subscribed clients are notified.
    .tool(
      'save_recipe',
      {
        title: 'Save a recipe',
        description: 'Saves a recipe',
        input: z.object({ recipe: name, text: z.string() }),
        scopes: ['mcp:write'],
        annotations: { destructiveHint: true, openWorldHint: false },
      },
      ({ recipe, text }) => {
        const isNew = !recipes.has(recipe)
        recipes.set(recipe, text)
        adapter.notify.resourceUpdated(`recipes://all/${recipe}`)
        if (isNew) adapter.notify.resourcesChanged()
        return `Saved ${recipe}`
      },
    )
  const adapter: McpAdapter = createMcpAdapter({
    router,
    oauth,
    serverInfo: { name: 'recipes', version: '1.0.0' },
  })

  const app = express()
  app.use('/mcp', mcpCors(), mcpAuth(adapter), mcpHandler(adapter))
  app.use(protectedResourceRouter(adapter))
  return app
}
