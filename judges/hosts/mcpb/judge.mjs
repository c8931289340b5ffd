// The validator of MCPB bundles.

import { execFileSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { judgePlugin } from '../plugin.mjs';

const mcpb = join(dirname(fileURLToPath(import.meta.url)), 'node_modules/.bin/mcpb');

judgePlugin('MCPB', 'mcpb', (folder, options) => execFileSync(mcpb, ['validate', join(folder, 'manifest.json')], options));
