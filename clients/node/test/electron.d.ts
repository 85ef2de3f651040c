// The part of Electron's types that the README uses.

declare namespace NodeJS {
  interface Process {
    readonly resourcesPath: string;
  }
}

declare module 'electron' {
  export const app: {
    readonly isPackaged: boolean;
    whenReady(): Promise<void>;
    on(event: 'before-quit', listener: (event: { preventDefault(): void }) => void): void;
    quit(): void;
  };
  export const ipcMain: {
    handle(channel: string, listener: (event: unknown, ...args: unknown[]) => unknown): void;
  };
  export const webContents: {
    getAllWebContents(): { send(channel: string, ...args: unknown[]): void }[];
  };
}
