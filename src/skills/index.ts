export type { LoadedSkills, SkillInfo, SkillsConfig } from '../mcp/router/skills.ts'
export { loadSkills } from './load-skills.ts'
export type { LoadSkillsOptions, SkillFileContents } from './options.ts'
