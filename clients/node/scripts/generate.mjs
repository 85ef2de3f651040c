// Writes src/methods.ts: the types of the daemon's methods, from the daemon's OpenRPC document.
//
//   DUET_RPC=path/to/duet-rpc node scripts/generate.mjs            writes the file
//   DUET_RPC=path/to/duet-rpc node scripts/generate.mjs --print    prints it
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';

const program = process.env.DUET_RPC;
if (!program) throw new Error('set the environment variable DUET_RPC to the path of the daemon');

/** Calls a method of the daemon in this profile. */
function ask(profile, method) {
  const text = execFileSync(program, ['call', '--profile', profile, '--log-level', 'error', method], {
    encoding: 'utf8',
    timeout: 30_000,
  });
  return JSON.parse(text);
}

/** The named schemas of all documents that were asked for. */
const schemas = {};

/** The document of this profile. */
function discover(profile) {
  const document = ask(profile, 'rpc.discover');
  Object.assign(schemas, document.components?.schemas);
  return document;
}

/** Converts a schema into a type. A keyword that is not known here is an error, so that none is lost silently. */
function typeOf(schema, indent) {
  if (schema === true) return 'unknown';
  if (schema.$ref !== undefined) return typeOf(named(schema.$ref), indent);
  const { type, enum: values, items, properties, required, description, ...unknown } = schema;
  if (Object.keys(unknown).length > 0) throw new Error(`unknown keywords in a schema: ${Object.keys(unknown)}`);
  if (values !== undefined) return values.map(quote).join(' | ');
  if (Array.isArray(type)) return type.map((each) => typeOf({ type: each }, indent)).join(' | ');
  switch (type) {
    case undefined:
      return 'unknown';
    case 'string':
    case 'boolean':
    case 'number':
    case 'null':
      return type;
    case 'integer':
      return 'number';
    case 'array': {
      if (items === undefined) return 'readonly unknown[]';
      const item = typeOf(items, indent);
      return item.includes(' | ') ? `readonly (${item})[]` : `readonly ${item}[]`;
    }
    case 'object': {
      if (properties === undefined) return 'object';
      const members = Object.entries(properties).map(([name, member]) => ({
        name,
        isRequired: required?.includes(name) ?? false,
        type: typeOf(member, indent + '  '),
      }));
      return object(members, indent);
    }
    default:
      throw new Error(`unknown type in a schema: ${type}`);
  }
}

/** The schema that a reference names. */
function named(reference) {
  const schema = schemas[reference.replace('#/components/schemas/', '')];
  if (schema === undefined) throw new Error(`a reference to nowhere: ${reference}`);
  return schema;
}

function object(members, indent) {
  const lines = members.map(({ name, isRequired, type, summary }) => {
    const remark = summary === undefined ? '' : `${indent}  /** ${comment(summary)} */\n`;
    return `${remark}${indent}  readonly ${key(name)}${isRequired ? '' : '?'}: ${type};\n`;
  });
  return `{\n${lines.join('')}${indent}}`;
}

/** The type of a method's params: by name, or by position. */
function paramsOf(method, indent) {
  if (method['x-params'] !== undefined) return `${typeOf(method['x-params'], indent)} | undefined`;
  if (method.params.length === 0) return 'NoParams';
  const members = method.params.map(({ name, required, schema, summary }) => ({
    name,
    isRequired: required === true,
    type: typeOf(schema, indent + '  '),
    summary,
  }));
  const places = members.map(({ name, isRequired, type }) => `${name}${isRequired ? '' : '?'}: ${type}`);
  return `${object(members, indent)} | readonly [${places.join(', ')}]`;
}

function methodOf(method) {
  return [
    `  /** ${comment(method.summary)} */`,
    `  readonly ${key(method.name)}: {`,
    `    readonly params: ${paramsOf(method, '    ')};`,
    `    readonly result: ${typeOf(method.result.schema, '    ')};`,
    '  };',
    '',
  ].join('\n');
}

function key(name) {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? name : quote(name);
}

/** Escapes a text, so that it cannot end the comment that contains it. */
function comment(text) {
  return text.replaceAll('*/', '*\\/');
}

function quote(text) {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

/** The methods that each profile adds to the previous one. The editor profile serves only the names of its methods, not
 * the document. */
function profiles() {
  const editor = ask('editor', 'listMethods').map(({ name }) => name);
  const desktop = discover('desktop').methods;
  const agent = discover('agent').methods;
  const isIn = (methods) => {
    const names = new Set(methods.map((method) => method.name ?? method));
    return ({ name }) => names.has(name);
  };
  for (const name of editor) {
    if (!desktop.some((method) => method.name === name)) throw new Error(`${name} is only in the editor profile`);
  }
  return [
    ['EditorMethods', undefined, desktop.filter(isIn(editor))],
    ['DesktopMethods', 'EditorMethods', desktop.filter((method) => !isIn(editor)(method))],
    ['AgentMethods', 'DesktopMethods', agent.filter((method) => !isIn(desktop)(method))],
  ];
}

const parts = profiles().map(([name, base, methods]) => {
  const profile = name.replace('Methods', '').toLowerCase();
  const begin = `/** The methods of the ${profile} profile. */\nexport interface ${name}`;
  return `${begin}${base === undefined ? '' : ` extends ${base}`} {\n${methods.map(methodOf).join('')}}\n`;
});

const text = `// Generated by scripts/generate.mjs from the daemon's OpenRPC document. Do not edit.

/** The params of a method without params. */
export type NoParams = Readonly<Record<string, never>> | readonly [] | null | undefined;

${parts.join('\n')}`;

if (process.argv[2] === '--print') {
  process.stdout.write(text);
} else {
  writeFileSync(new URL('../src/methods.ts', import.meta.url), text);
}
