// The commands of a plan's steps as text, each with its reason.
export const commandsOf = (steps) => steps.map((step) => `${step.command}\n    # ${step.why}`).join('\n');
