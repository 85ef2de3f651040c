// Validates an OpenRPC document on stdin against the schema of OpenRPC. Every reference must lead to a schema. Exits
// with 0 if the document is valid, and otherwise prints the errors.
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const require = createRequire(join(process.argv[2], 'package.json'));
const load = (name) => require(name).default ?? require(name);
const Ajv = load('ajv');

/** Removes the names of meta-schemas: the schemas name themselves, and Ajv would have to know them before. */
function plain(schema) {
  const text = JSON.stringify(schema, (key, value) => (key === '$schema' && typeof value === 'string' ? undefined : value));
  return JSON.parse(text);
}

const ajv = new Ajv({ strict: false, allErrors: true, validateFormats: false, validateSchema: false });
ajv.addSchema(plain(load('@json-schema-tools/meta-schema')), 'https://meta.json-schema.tools');
const validate = ajv.compile(plain(load('@open-rpc/meta-schema')));
const document = JSON.parse(readFileSync(0, 'utf8'));
const errors = validate(document) ? [] : [...validate.errors];

/** Finds references that lead nowhere. */
function follow(value) {
  if (typeof value !== 'object' || value === null) return;
  if (typeof value.$ref === 'string') {
    const parts = decodeURIComponent(value.$ref).split('/').slice(1);
    const found = parts.reduce((it, part) => it?.[part.replaceAll('~1', '/').replaceAll('~0', '~')], document);
    if (found === undefined) errors.push(`a reference to nowhere: ${value.$ref}`);
  }
  Object.values(value).forEach(follow);
}
follow(document);

// The methods of the client are an extension, which the schema of OpenRPC does not check. They have the same form.
const methods = { ...document, methods: document['x-client-methods'] ?? [] };
if (!validate(methods)) errors.push(...validate.errors);

// Each schema must be one that a validator can use.
const schemas = new Ajv({ strict: false, validateFormats: false });
for (const name of Object.keys(document.components?.schemas ?? {})) {
  const root = { $ref: `#/components/schemas/${encodeURIComponent(name)}`, components: document.components };
  try {
    schemas.compile(root);
  } catch (error) {
    errors.push(`the schema ${name}: ${error.message}`);
  }
}

if (errors.length > 0) {
  console.error(JSON.stringify(errors, null, 1));
  process.exit(1);
}
