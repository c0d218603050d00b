// The collector in the package of this platform, which npm installs with a release of this one.

export const collectorPackage = `@llmtap/${process.platform}-${process.arch}`;

/** Returns the path of its program, or undefined if it is not installed. */
export function collector(): string | undefined {
  try {
    return require.resolve(`${collectorPackage}/bin/llmtap`);
  } catch {
    return undefined;
  }
}
