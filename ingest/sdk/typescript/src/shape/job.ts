/** A body to shape. */
export interface ShapeJob {
  response: boolean;
  dialect: string;
  body: Uint8Array;
  limit: number; // bytes; a longer shape becomes opaque
}
