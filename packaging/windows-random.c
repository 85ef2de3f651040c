/* ProcessPrng for wine 8, which has no bcryptprimitives.dll. Without the DLL, a program of Rust ends silently. Real
   Windows has its own; scripts/windows builds this for the tests only. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG length);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buffer, SIZE_T length) {
  while (length > 0) {
    ULONG part = length > 0x10000000 ? 0x10000000 : (ULONG)length;
    if (!SystemFunction036(buffer, part)) return FALSE;
    buffer += part;
    length -= part;
  }
  return TRUE;
}
